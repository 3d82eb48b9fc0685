"""Training, validation and test splits of molecules."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.datasets.pairs import split_smiles
from dgn.data.splits import SHARES, assign_groups, group, scaffold, scaffold_split, shuffled_groups
from dgn.molecules.columns import Target, Task
from dgn.molecules.featurize import parse
from dgn.molecules.rows import Molecules, Problem, TableData, canonical, select_targets, take, update_remarks
from dgn.molecules.table import Table

SPLITS = ("train", "val", "test")
MOST = 0.8  # largest fraction in the test split
FAR = 0.3  # Kolmogorov-Smirnov statistic above which splits differ much in a target
SPLIT_ALIASES = {
    "train": 0, "training": 0, "val": 1, "valid": 1, "validation": 1, "dev": 1, "test": 2, "testing": 2, "holdout": 2,
}  # fmt: skip
SPLIT_NAMES = ("split", "set", "fold", "subset")
STRATIFIED = ("binary", "multiclass")  # tasks of which random splits are stratified


class Split(NamedTuple):
    """The split of each molecule, ``assignment`` [R] of 0 (train), 1 (val) and 2 (test), the method, and notes."""

    assignment: Tensor
    method: str
    notes: tuple[str, ...] = ()


def split_molecules(
    molecules: Molecules,
    task: Task,
    method: str | None = None,
    seed: int = 0,
    test: float | None = None,
    source: str = "the column",
) -> Split:
    """Split by "scaffold", at "random", or by the column ``molecules.split``, which messages call ``source``.

    Without ``method``: by scaffold, unless a split would be empty or lack a class; then at random, with a note.
    Duplicates of a molecule share a split. ``test`` is the fraction of the test split, by default 0.1; with 0 there is
    none.

    Law: the split of a molecule depends on ``seed``, but not on the order of the rows.
    """
    check_test_fraction(test)
    if molecules.split is not None:
        return _split_by_column(molecules, task, seed, test, source)
    shares = SHARES if test is None else (1 - SHARES[1] - test, SHARES[1], test)
    names = SPLITS if shares[2] else SPLITS[:2]
    if method in (None, "scaffold"):
        assignment = scaffold_split(_scaffolds(molecules), shares, seed)
        missing = missing_classes(assignment, molecules.values, task, names)
        if not missing:
            return Split(assignment, "scaffold")
        if method is not None:
            raise ValueError(f"split: expected scaffolds to fill every split, got {missing}; use random")
        note = f"split by scaffold gives {missing}; split at random instead"
    else:
        note = ""
    assignment = random_split(molecules, task, seed, shares)
    missing = missing_classes(assignment, molecules.values, task, names)
    if missing:
        expected = "every class in the training split" if task == "multiclass" else "both classes in every split"
        raise ValueError(f"split: expected {expected}, got {missing}; add molecules")
    return Split(assignment, "random", (note,) if note else ())


def assign_splits(molecules: Molecules, table: Table) -> Molecules:
    """The molecules with the splits of a table that ``dgn fit`` wrote, ``splits.csv``, found by molecule.

    The table has columns smiles and split. A molecule that it does not have, or has in several splits, is refused.
    """
    smiles, split = table.position("smiles"), table.position("split")
    splits: dict[str, set[str]] = {}
    for row in table.rows():
        if not any(isinstance(parse(part), str) for part in split_smiles(row.values[smiles])):
            splits.setdefault(canonical(row.values[smiles]), set()).add(row.values[split].strip().lower())
    for key, line in zip(molecules.keys, molecules.lines, strict=True):
        if len(splits.get(key, ())) != 1:
            got = "none" if key not in splits else " and ".join(sorted(splits[key]))
            raise ValueError(
                f"{table.path}: expected one split for each molecule, got {got} for {key} (line {line} of the table); "
                "leave the row out, or add it"
            )
    return replace(molecules, split=tuple(next(iter(splits[key])) for key in molecules.keys))


def cross_validation(
    molecules: Molecules, task: Task, folds: int, method: str | None = None, seed: int = 0
) -> list[Split]:
    """Splits in which every molecule is tested once; a random ninth of the others is for validation.

    Folds are groups of scaffolds, or "random" ones, of nearly equal size: the next group goes to the smallest fold.
    Without ``method``: by scaffold, unless a split would be empty or lack a class; then at random, with a note.
    """
    keys = molecules.keys if method == "random" else _scaffolds(molecules)
    groups = shuffled_groups(keys, seed)
    if method == "random" and task in STRATIFIED:
        groups = sorted(groups, key=lambda rows: float(molecules.values[rows, 0].max()))
    elif method != "random":
        groups = sorted(groups, key=lambda rows: -len(rows))
    fold, sizes = torch.zeros(len(keys), dtype=torch.long), [0] * folds
    for rows in groups:
        smallest = sizes.index(min(sizes))
        fold[rows] = smallest
        sizes[smallest] += len(rows)
    splits = []
    for index in range(folds):
        assignment = torch.full((len(keys),), 2, dtype=torch.uint8)
        others = (fold != index).nonzero()[:, 0]
        assignment[others] = random_split(take(molecules, others), task, seed, (8 / 9, 1 / 9, 0.0)).clamp(max=1)
        missing = missing_classes(assignment, molecules.values, task)
        if missing and method is None:
            note = f"folds by scaffold give {missing}; folds at random instead"
            return [split._replace(notes=(note,)) for split in cross_validation(molecules, task, folds, "random", seed)]
        if missing:
            raise ValueError(f"folds: expected molecules for every split, got {missing}; use fewer, or --split random")
        splits.append(Split(assignment, "random" if method == "random" else "scaffold"))
    return splits


def _scaffolds(molecules: Molecules) -> list[str]:
    """The scaffold of each molecule; of a pair, that of the first one."""
    return [scaffold(split_smiles(key)[0]) for key in molecules.keys]


def check_test_fraction(test: float | None) -> None:
    """Refuse a fraction outside of [0, MOST]."""
    if test is not None and not 0 <= test <= MOST:
        raise ValueError(f"test: expected a fraction from 0 to {MOST}, got {test}; for example 0.1")


def random_split(molecules: Molecules, task: Task, seed: int = 0, shares: Sequence[float] = SHARES) -> Tensor:
    """A random split [R] of 0, 1 and 2 that keeps duplicates together; stratified for one target of classes.

    Training has a molecule of every class, however rare.
    """
    shuffled = shuffled_groups(molecules.keys, seed)
    if task not in STRATIFIED:
        return assign_groups(shuffled, len(molecules.keys), shares)
    split = torch.zeros(len(molecules.keys), dtype=torch.uint8)
    for label in torch.unique(molecules.values[:, 0]).tolist():
        of_class = [rows for rows in shuffled if float(molecules.values[rows, 0].max()) == label]
        rows = [row for members in of_class for row in members]
        if rows:
            split[rows] = assign_groups(of_class, len(rows), shares)[rows]
            split[of_class[0]] = 0
    return split


def unequal_targets(values: Tensor, split: Tensor, targets: Sequence[Target]) -> list[str]:
    """A note for each target [R, T] whose distribution in the val or test split is far from that of training.

    Far is a Kolmogorov-Smirnov statistic of more than ``FAR`` that is not chance (p < 0.001).
    """
    from scipy.stats import ks_2samp

    notes = []
    for name, target, present in _compared(values, targets):
        train, *others = (present[(split == index) & ~present.isnan()] for index in range(len(SPLITS)))
        tests = [ks_2samp(train.numpy(), other.numpy()) if len(train) and len(other) else None for other in others]
        far = [test is not None and test.statistic > FAR and test.pvalue < 1e-3 for test in tests]
        if any(far):
            shown = [
                ("train", train),
                *((name, part) for name, part, is_far in zip(SPLITS[1:], others, far, strict=True) if is_far),
            ]
            parts = ", ".join(f"{split_name} {_distribution(part, target)}" for split_name, part in shown)
            notes.append(
                f"{name} differs between the splits: {parts}: {shown[-1][0]} scores are those of extrapolation"
            )
    return notes


def _compared(values: Tensor, targets: Sequence[Target]) -> Iterator[tuple[str, Target, Tensor]]:
    """What splits are compared by: numbers, and for classes whether a molecule is of the positive one, or of each."""
    for target, column in zip(targets, values.T, strict=True):
        if target.classes is None:
            yield target.name, target, column
            continue
        for label in range(1 if len(target.classes) == 2 else 0, len(target.classes)):
            is_class = (column == label).double().masked_fill(column.isnan(), torch.nan)
            yield f"{target.name} = {target.classes[label]}", target, is_class


def _distribution(values: Tensor, target: Target) -> str:
    """Mean and standard deviation, or the fraction of a class, as text."""
    mean = float(values.mean())
    return f"{mean:.3g} ± {float(values.std(correction=0)):.2g}" if target.classes is None else f"{100 * mean:.3g} %"


def missing_classes(split: Tensor, values: Tensor, task: Task, names: Sequence[str] = SPLITS) -> str:
    """A message if a split is empty or lacks a class, else ""; several classes must all be in training only."""
    for index, name in enumerate(names):
        split_values = values[split == index]
        if not len(split_values):
            return f"no molecule for {name}"
        if task == "multiclass" and name == "train":
            total, present = len(torch.unique(values)), len(torch.unique(split_values))
            if present < total:
                return f"{total - present} of {total} classes missing for {name}"
        if task in ("binary", "multi-label") and not bool(learnable(split_values, task).any()):
            return f"one class only for {name}"
    return ""


def learnable(values: Tensor, task: Task) -> Tensor:
    """A mask [T] of the targets that training values [R, T] can teach: those with a value, or with both classes.

    >>> learnable(torch.tensor([[0.0, torch.nan], [1.0, torch.nan]]), "regression").tolist()
    [True, False]
    """
    if task == "regression":
        return ~values.isnan().all(dim=0)
    return (values == 0).any(dim=0) & (values == 1).any(dim=0)


def check_learnable(values: Tensor, task: Task, targets: Sequence[Target]) -> None:
    """Refuse a target without training values [R, T], or without one of its classes."""
    if task == "multiclass":
        _check_classes(values[:, 0], targets[0])
        return
    expected, got = _requirement(task)
    for target, is_learnable in zip(targets, learnable(values, task).tolist(), strict=True):
        if not is_learnable:
            raise ValueError(
                f"target {target.name!r}: expected {expected} in the training split, got {got}; leave it out, or "
                "choose another split"
            )


def _check_classes(labels: Tensor, target: Target) -> None:
    """Refuse a target of several classes of which the training split lacks one."""
    for label, name in enumerate(target.classes or ()):
        if not bool((labels == label).any()):
            raise ValueError(
                f"target {target.name!r}: expected molecules of every class in the training split, got none of "
                f"{name!r}; blank its values, or choose another split"
            )


def drop_unlearnable(data: TableData, split: Split) -> tuple[TableData, Split]:
    """The data and split without targets that cannot be learned, and without the rows that have no other target."""
    training = data.molecules.values[split.assignment == 0]
    if data.task == "multiclass":
        _check_classes(training[:, 0], data.targets[0])
        return data, split
    mask = learnable(training, data.task)
    if mask.all():
        return data, split
    expected, got = _requirement(data.task)
    targets = tuple(target for target, is_learnable in zip(data.targets, mask.tolist(), strict=True) if is_learnable)
    names = [target.name for target in data.targets if target not in targets]
    molecules = select_targets(data.molecules, mask)
    empty = molecules.values.isnan().all(dim=1)
    lines = tuple(data.molecules.lines[row] for row in empty.nonzero()[:, 0].tolist())
    molecules, assignment = take(molecules, (~empty).nonzero()[:, 0]), split.assignment[~empty]
    has_test = bool((split.assignment == 2).any())
    missing = missing_classes(assignment, molecules.values, data.task, SPLITS if has_test else SPLITS[:2])
    if missing:
        raise ValueError(
            f"split: expected {expected} of {', '.join(names)} in the training split, got {got}, and {missing} "
            "without them; use --split random, or choose other targets"
        )
    new_problems = [Problem("values only of targets left out", "left out", lines)] if lines else []
    problems = update_remarks((*data.problems, *new_problems), molecules)
    note = f"targets without {expected} in the training split, left out: {', '.join(names)}"
    task: Task = "binary" if data.task == "multi-label" and len(targets) == 1 else data.task
    learnable_data = replace(
        data, task=task, targets=targets, molecules=molecules, problems=problems, notes=(*data.notes, note)
    )
    return learnable_data, split._replace(assignment=assignment)


def _requirement(task: Task) -> tuple[str, str]:
    """What a target needs in the training split, and what it has otherwise."""
    return ("a value", "none") if task == "regression" else ("both classes", "one at most")


def _split_by_column(molecules: Molecules, task: Task, seed: int, test: float | None, source: str) -> Split:
    assert molecules.split is not None
    for line, value in zip(molecules.lines, molecules.split, strict=True):
        if value.strip().lower() not in SPLIT_ALIASES:
            raise ValueError(
                f"split: expected train, val or test in every row, got {value!r} in line {line}; correct it, or choose "
                "--split scaffold or random"
            )
    assignment = torch.tensor([SPLIT_ALIASES[value.strip().lower()] for value in molecules.split], dtype=torch.uint8)
    if test or (test == 0 and (assignment == 2).any()):
        raise ValueError(
            f"test: expected no fraction, as {source} defines the test split, got {test:g}; leave it out, or choose "
            "--split scaffold or random"
        )
    notes = []
    if not (assignment == 1).any():
        training = (assignment == 0).nonzero()[:, 0]
        assignment[training] = random_split(take(molecules, training), task, seed, (8 / 9, 1 / 9, 0.0))
        notes.append(f"{source} has no val: a random ninth of the training molecules is the validation split")
    leaks = [rows for rows in group(molecules.keys).values() if len({int(assignment[row]) for row in rows}) > 1]
    if leaks:
        notes.append(f"{len(leaks)} molecules are in more than one split: scores may be optimistic")
    missing = missing_classes(assignment, molecules.values, task, SPLITS if test is None else SPLITS[:2])
    if missing:
        remedy = "correct it" + ", or fit without a test split by --test 0" * missing.endswith("for test")
        raise ValueError(f"split: expected {source} to fill every split, got {missing}; {remedy}")
    return Split(assignment, "column", tuple(notes))
