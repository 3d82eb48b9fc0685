"""Targets whose logarithm is learned: from the unit of the column to decades, and back."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from dgn.molecules.columns import Target
from dgn.molecules.rows import FEWEST, Problem, TableData, take, update_remarks

DECADES = 3.0  # span of a positive target from which a logarithm is suggested


def to_log(targets: Sequence[Target], values: Tensor) -> Tensor:
    """The values [..., T] that networks learn: log10 where a target has ``log``; NaN for what is not positive.

    >>> to_log((Target("Ki", log=True), Target("logP")), torch.tensor([[100.0, 3.0], [0.0, -1.0]])).tolist()
    [[2.0, 3.0], [nan, -1.0]]
    """
    positive = torch.where(values > 0, values, torch.nan)
    return torch.where(_mask(targets), positive.log10(), values)


def from_log(targets: Sequence[Target], values: Tensor) -> Tensor:
    """Learned values [..., T] in the unit of the column.

    >>> from_log((Target("Ki", log=True), Target("logP")), torch.tensor([2.0, 3.0])).tolist()
    [100.0, 3.0]
    """
    return torch.where(_mask(targets), 10**values, values)


def learn_logarithm(data: TableData) -> TableData:
    """The data with ``log`` for all targets; values that are not positive are missing, rows without others left out."""
    if data.task != "regression":
        raise ValueError(f"log: expected numbers to take the logarithm of, got {data.task}; leave it out")
    values, lines = data.molecules.values, data.molecules.lines
    invalid = (values <= 0).any(dim=1)
    values = torch.where(values > 0, values, torch.nan)
    is_used = ~values.isnan().all(dim=1)
    if int(is_used.sum()) < FEWEST:
        raise ValueError(
            f"log: expected at least {FEWEST} molecules with positive values, got {int(is_used.sum())}; leave it out"
        )
    molecules = take(replace(data.molecules, values=values), is_used.nonzero()[:, 0])
    affected = {
        "no positive value": ("left out", ~is_used),
        "values that are not positive": ("treated as missing", invalid & is_used),
    }
    new_problems = [
        Problem(what, action, tuple(lines[row] for row in mask.nonzero()[:, 0].tolist()))
        for what, (action, mask) in affected.items()
        if mask.any()
    ]
    targets = tuple(replace(target, log=True) for target in data.targets)
    problems = update_remarks((*data.problems, *new_problems), molecules)
    return replace(data, molecules=molecules, targets=targets, problems=problems)


def suggest_logarithm(data: TableData) -> TableData:
    """The data with a note on positive targets that span decades."""
    names = spans_decades(data.targets, data.molecules.values) if data.task == "regression" else []
    note = f"positive values that span {DECADES:g} decades or more: {', '.join(names)}; --log learns their logarithm"
    return replace(data, notes=(*data.notes, note)) if names else data


def spans_decades(targets: Sequence[Target], values: Tensor) -> list[str]:
    """The names of positive targets [R, T] of regression, without a logarithm, whose central 98 % span decades.

    >>> spans_decades((Target("nM"), Target("x")), torch.logspace(0, 5, 200)[:, None] * torch.tensor([1.0, -1.0]))
    ['nM']
    """
    names = []
    for target, column in zip(targets, values.double().T, strict=True):
        present = column[~column.isnan()]
        if target.classes is None and not target.log and len(present) and bool((present > 0).all()):
            low, high = present.quantile(torch.tensor([0.01, 0.99], dtype=torch.float64)).log10().tolist()
            names += [target.name] * (high - low >= DECADES)
    return names


def _mask(targets: Sequence[Target]) -> Tensor:
    return torch.tensor([target.log for target in targets])
