"""Targets whose logarithm is learned: from the unit of the column to decades, and back."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dgn.molecules.columns import Target

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
