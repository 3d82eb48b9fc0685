"""Molecules to learn from, to stop by, and to score on."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.parts import SHARES, by_scaffold, fill, group, scaffold
from dgn.fitting.columns import Task
from dgn.fitting.rows import Molecules

PARTS = ("train", "val", "test")
WORDS = {
    "train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2, "holdout": 2,
}  # fmt: skip
SPLIT_NAMES = ("split", "set", "fold", "subset")


class Split(NamedTuple):
    """Which part each molecule belongs to, [R] of 0 (train), 1 (val) and 2 (test), how, and remarks."""

    part: Tensor
    how: str
    notes: tuple[str, ...] = ()


def split_molecules(molecules: Molecules, task: Task, how: str | None = None, seed: int = 0) -> Split:
    """Split by "scaffold" or "random", or as ``molecules.part`` says.

    Without ``how``: by scaffold, unless a part would be empty or without one of the classes; then at random, which is
    said. Spellings and copies of a molecule stay together.
    """
    if molecules.part is not None:
        return _given(molecules, task, seed)
    if how in (None, "scaffold"):
        found = Split(by_scaffold([scaffold(one) for one in molecules.smiles]), "scaffold")
        wrong = lack(found.part, molecules.values, task)
        if not wrong:
            return found
        if how is not None:
            raise ValueError(f"split: expected scaffolds to leave something for every part, got {wrong}; use random")
        note = f"scaffolds would leave {wrong}; split at random instead"
    else:
        note = ""
    part = at_random(molecules, task, seed)
    wrong = lack(part, molecules.values, task)
    if wrong:
        raise ValueError(f"split: expected something of each class in every part, got {wrong}; give more molecules")
    return Split(part, "random", (note,) if note else ())


def at_random(molecules: Molecules, task: Task, seed: int = 0, shares: Sequence[float] = SHARES) -> Tensor:
    """Groups of the same molecule in random order; two classes are split each for itself, so that both are spread."""
    groups = list(group(molecules.keys).values())
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed)).tolist()
    shuffled = [groups[number] for number in order]
    if task != "binary":
        return fill(shuffled, len(molecules.keys), shares)
    part = torch.zeros(len(molecules.keys), dtype=torch.uint8)
    for label in (0.0, 1.0):
        chosen = [rows for rows in shuffled if float(molecules.values[rows[0], 0]) == label]
        rows = [number for one in chosen for number in one]
        part[rows] = fill(chosen, sum(map(len, chosen)), shares)[rows] if rows else part[rows]
    return part


def lack(part: Tensor, values: Tensor, task: Task, parts: Sequence[str] = PARTS) -> str:
    """What is missing in the parts of a split, in words; "" if nothing."""
    for number, name in enumerate(parts):
        chosen = values[part == number]
        if not len(chosen):
            return f"no molecule for {name}"
        if task != "regression" and not bool(((chosen == 0).any(dim=0) & (chosen == 1).any(dim=0)).any()):
            return f"one class only for {name}"
    return ""


def _given(molecules: Molecules, task: Task, seed: int) -> Split:
    assert molecules.part is not None
    for line, word in zip(molecules.lines, molecules.part, strict=True):
        if word.strip().lower() not in WORDS:
            raise ValueError(
                f"split: expected train, val or test in every row, got {word!r} in line {line}; correct it, or choose "
                "--split scaffold or random"
            )
    part = torch.tensor([WORDS[word.strip().lower()] for word in molecules.part], dtype=torch.uint8)
    notes = []
    if not (part == 1).any():
        training = (part == 0).nonzero()[:, 0]
        order = torch.randperm(len(training), generator=torch.Generator().manual_seed(seed))
        part[training[order[: max(1, len(training) // 9)]]] = 1
        notes.append("no row is called val: a ninth of the training molecules, at random, takes its place")
    together = [rows for rows in group(molecules.keys).values() if len({int(part[number]) for number in rows}) > 1]
    if together:
        notes.append(f"{len(together)} molecules stand in more than one part: scores may look too good")
    wrong = lack(part, molecules.values, task)
    if wrong:
        raise ValueError(f"split: expected the column to give something to every part, got {wrong}; correct it")
    return Split(part, "column", tuple(notes))
