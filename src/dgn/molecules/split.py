"""Molecules to learn from, to stop by, and to score on."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.splits import SHARES, assign_groups, group, scaffold, scaffold_split
from dgn.molecules.columns import Target, Task
from dgn.molecules.rows import Molecules, Problem, TableData, remarkable, take

PARTS = ("train", "val", "test")
MOST = 0.8  # that may be held out: something must be left to learn from
WORDS = {
    "train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2, "holdout": 2,
}  # fmt: skip
SPLIT_NAMES = ("split", "set", "fold", "subset")


class Split(NamedTuple):
    """Which part each molecule belongs to, [R] of 0 (train), 1 (val) and 2 (test), how, and remarks."""

    part: Tensor
    how: str
    notes: tuple[str, ...] = ()


def split_molecules(
    molecules: Molecules, task: Task, how: str | None = None, seed: int = 0, test: float | None = None
) -> Split:
    """Split by "scaffold" or "random", or as ``molecules.part`` says.

    Without ``how``: by scaffold, unless a part would be empty or without one of the classes; then at random, which is
    said. Spellings and copies of a molecule stay together. ``test`` is the share that is held out for the scores, a
    tenth if it is not given; with 0 every molecule is learned from or validated with.
    """
    check_share(test)
    if molecules.part is not None:
        return _given(molecules, task, seed, test)
    shares = SHARES if test is None else (1 - SHARES[1] - test, SHARES[1], test)
    parts = PARTS if shares[2] else PARTS[:2]
    if how in (None, "scaffold"):
        found = Split(scaffold_split([scaffold(one) for one in molecules.keys], shares), "scaffold")
        wrong = lack(found.part, molecules.values, task, parts)
        if not wrong:
            return found
        if how is not None:
            raise ValueError(f"split: expected scaffolds to leave something for every part, got {wrong}; use random")
        note = f"scaffolds would leave {wrong}; split at random instead"
    else:
        note = ""
    part = at_random(molecules, task, seed, shares)
    wrong = lack(part, molecules.values, task, parts)
    if wrong:
        raise ValueError(f"split: expected something of each class in every part, got {wrong}; give more molecules")
    return Split(part, "random", (note,) if note else ())


def check_share(test: float | None) -> None:
    """Refuse to hold out what is no share, or nearly everything."""
    if test is not None and not 0 <= test <= MOST:
        raise ValueError(f"test: expected a share from 0 to {MOST}, got {test}; for example 0.1")


def at_random(molecules: Molecules, task: Task, seed: int = 0, shares: Sequence[float] = SHARES) -> Tensor:
    """Groups of the same molecule in random order; two classes are split each for itself, so that both are spread."""
    groups = list(group(molecules.keys).values())
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed)).tolist()
    shuffled = [groups[number] for number in order]
    if task != "binary":
        return assign_groups(shuffled, len(molecules.keys), shares)
    part = torch.zeros(len(molecules.keys), dtype=torch.uint8)
    for label in (0.0, 1.0):
        chosen = [rows for rows in shuffled if float(molecules.values[rows[0], 0]) == label]
        rows = [number for one in chosen for number in one]
        part[rows] = assign_groups(chosen, sum(map(len, chosen)), shares)[rows] if rows else part[rows]
    return part


def lack(part: Tensor, values: Tensor, task: Task, parts: Sequence[str] = PARTS) -> str:
    """What is missing in the parts of a split, in words; "" if nothing."""
    for number, name in enumerate(parts):
        chosen = values[part == number]
        if not len(chosen):
            return f"no molecule for {name}"
        if task != "regression" and not bool(taught(chosen, task).any()):
            return f"one class only for {name}"
    return ""


def taught(values: Tensor, task: Task) -> Tensor:
    """Which targets, [T], can be learned from training values [R, T]: those with a value, or with both classes.

    >>> taught(torch.tensor([[0.0, torch.nan], [1.0, torch.nan]]), "regression").tolist()
    [True, False]
    """
    if task == "regression":
        return ~values.isnan().all(dim=0)
    return (values == 0).any(dim=0) & (values == 1).any(dim=0)


def check_learnable(values: Tensor, task: Task, targets: Sequence[Target]) -> None:
    """Refuse a target that training values [R, T] say nothing about: what it would predict means nothing."""
    wanted, got = _wanted(task)
    for target, known in zip(targets, taught(values, task).tolist(), strict=True):
        if not known:
            raise ValueError(
                f"target {target.name!r}: expected {wanted} among the molecules to train on, got {got}; leave it out, "
                "or split otherwise"
            )


def drop_unlearnable(data: TableData, split: Split) -> tuple[TableData, Split]:
    """Without the targets that the training part says nothing about, and the rows that have no other; both are said."""
    known = taught(data.molecules.values[split.part == 0], data.task)
    if known.all():
        return data, split
    wanted, got = _wanted(data.task)
    targets = tuple(target for target, one in zip(data.targets, known.tolist(), strict=True) if one)
    names = [target.name for target in data.targets if target not in targets]
    molecules = replace(data.molecules, values=data.molecules.values[:, known])
    empty = molecules.values.isnan().all(dim=1)
    lines = tuple(data.molecules.lines[number] for number in empty.nonzero()[:, 0].tolist())
    molecules, part = take(molecules, (~empty).nonzero()[:, 0]), split.part[~empty]
    wrong = lack(part, molecules.values, data.task, PARTS if (split.part == 2).any() else PARTS[:2])
    if wrong:
        raise ValueError(
            f"split: expected {wanted} of {', '.join(names)} in the training part, got {got}, and {wrong} "
            "without them; use --split random, or choose other targets"
        )
    problems = [problem for problem in data.problems if problem.done != "kept"]
    problems += [Problem("values of targets left out alone", "left out", lines)] if lines else []
    note = f"targets without {wanted} in the training part, left out: {', '.join(names)}"
    task: Task = "binary" if data.task == "multi-label" and len(targets) == 1 else data.task
    problems += remarkable(molecules)
    found = replace(
        data, task=task, targets=targets, molecules=molecules, problems=tuple(problems), notes=(*data.notes, note)
    )
    return found, split._replace(part=part)


def _wanted(task: Task) -> tuple[str, str]:
    return ("a value", "none") if task == "regression" else ("both classes", "one at most")


def _given(molecules: Molecules, task: Task, seed: int, test: float | None) -> Split:
    assert molecules.part is not None
    for line, word in zip(molecules.lines, molecules.part, strict=True):
        if word.strip().lower() not in WORDS:
            raise ValueError(
                f"split: expected train, val or test in every row, got {word!r} in line {line}; correct it, or choose "
                "--split scaffold or random"
            )
    part = torch.tensor([WORDS[word.strip().lower()] for word in molecules.part], dtype=torch.uint8)
    if test or (test == 0 and (part == 2).any()):
        raise ValueError(
            f"test: expected no share beside a column that says what is held out, got {test:g}; leave it out, or "
            "choose --split scaffold or random"
        )
    notes = []
    if not (part == 1).any():
        training = (part == 0).nonzero()[:, 0]
        part[training] = at_random(take(molecules, training), task, seed, (8 / 9, 1 / 9, 0.0))
        notes.append("no row is called val: a ninth of the training molecules, at random, takes its place")
    together = [rows for rows in group(molecules.keys).values() if len({int(part[number]) for number in rows}) > 1]
    if together:
        notes.append(f"{len(together)} molecules stand in more than one part: scores may look too good")
    wrong = lack(part, molecules.values, task, PARTS if test is None else PARTS[:2])
    if wrong:
        raise ValueError(f"split: expected the column to give something to every part, got {wrong}; correct it")
    return Split(part, "column", tuple(notes))
