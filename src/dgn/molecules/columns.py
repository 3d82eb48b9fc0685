"""Detection of the SMILES column, the target columns and the task."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from dgn.graph.checks import check_option

Task = Literal["regression", "binary", "multi-label", "multiclass"]
TASKS: tuple[Task, ...] = get_args(Task)
MISSING = frozenset(("", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "none", "-", "?", "missing", "nd", "n.d."))
SMILES_NAMES = ("smiles", "canonical_smiles", "isomeric_smiles", "smi", "structure", "molecule", "mol")
TARGET_NAMES = ("y", "target", "label", "value", "activity", "property", "measured")
NOT_TARGETS = ("id", "idx", "index", "number", "no", "cid", "cas", "row", "split", "fold", "set", "date", "year", "")
POSITIVE = ("1", "true", "yes", "y", "active", "positive", "pos", "toxic", "hit", "t")
READABLE = 0.8  # fraction of a column's values that must parse as molecules
BOUND = re.compile(r"(>=|<=|>|<|≥|≤)\s*(\S+)")  # a censored value: a sign, then a number
STRAY = 0.1  # maximum ratio of values of neither class to values of the rarer class
MOST_CLASSES, PER_CLASS = 50, 5  # classes of a target, and rows that each text needs to be taken for one


@dataclass(frozen=True)
class Target:
    """A column to predict; ``classes`` are its values, None for regression; of two, the second is the positive one.

    With ``log``, the networks learn the decadic logarithm; predictions are in the unit of the column.
    """

    name: str
    classes: tuple[str, ...] | None = None
    log: bool = False


def output_names(task: Task, targets: Sequence[Target]) -> list[str]:
    """The names of a network's outputs: the targets, or with "multiclass" the classes of the only one.

    >>> output_names("multiclass", [Target("phase", ("gas", "liquid", "solid"))])
    ['gas', 'liquid', 'solid']
    """
    return list(targets[0].classes or ()) if task == "multiclass" else [target.name for target in targets]


def is_missing(text: str) -> bool:
    """Whether a value marks a missing measurement.

    >>> is_missing(" N/A "), is_missing("0")
    (True, False)
    """
    return text.strip().lower() in MISSING


def read_value(text: str, classes: tuple[str, ...] | None) -> float | None:
    """The number that a value stands for: NaN if missing, None if it cannot be parsed.

    >>> read_value("1.5", None), read_value("inactive", ("inactive", "active")), read_value("> 10", None)
    (1.5, 0.0, None)
    """
    text = text.strip()
    if is_missing(text):
        return math.nan
    number = _number(text)
    if classes is None:
        return number
    for index, name in enumerate(classes):
        if text.lower() == name.lower() or (number is not None and number == _number(name)):
            return float(index)
    return None


def read_bound(text: str) -> tuple[float, int] | None:
    """The number of a censored value, and 1 if the truth is above it, -1 if below; None for other text.

    >>> read_bound("> 10"), read_bound("<=0.1"), read_bound("10"), read_bound(">high")
    ((10.0, 1), (0.1, -1), None, None)
    """
    match = BOUND.fullmatch(text.strip())
    number = _number(match[2]) if match else None
    return None if match is None or number is None else (number, 1 if match[1] in (">", ">=", "≥") else -1)


def find_smiles(columns: Sequence[str], sample: Mapping[str, Sequence[str]]) -> str:
    """The column of SMILES: by its name, else by what RDKit parses in a sample of the rows."""
    usual = [name for alias in SMILES_NAMES for name in columns if _plain(name) == alias]
    similar = [name for name in columns if "smiles" in name.lower() and name not in usual]
    usual, similar = ([name for name in names if _readable(sample[name])[0] > 0.5] for names in (usual, similar))
    if usual or len(similar) == 1:
        return (usual or similar)[0]
    if similar:
        raise ValueError(
            f"smiles: expected one column of SMILES, got {', '.join(similar)}; choose one with --smiles, or "
            "two for pairs"
        )
    readable = {name: _readable(values) for name, values in sample.items()}
    likely = [name for name, (fraction, _) in readable.items() if fraction >= READABLE]
    if not likely:
        best = max(readable, key=lambda name: readable[name][0])
        share = f"at most {100 * readable[best][0]:.0f} % of a column, {best!r}," if readable[best][0] else "none"
        raise ValueError(
            f"smiles: expected a column of SMILES, got columns {', '.join(columns)}, of which RDKit can read {share}; "
            "name it with --smiles"
        )
    best = max(likely, key=lambda name: readable[name][1])
    atoms = _readable([best])[1]
    if atoms >= 3 or (atoms and any(_number(name) is not None for name in columns)):
        raise ValueError(
            f"header: expected column names in the first line, got {best!r}, which is a molecule; put a line such "
            "as smiles,y above it"
        )
    return best


def check_smiles(name: str, sample: Mapping[str, Sequence[str]]) -> None:
    """Refuse a column of which RDKit parses no value."""
    values = [text for text in sample[name] if text.strip()]
    if values and not _readable(values)[0]:
        raise ValueError(
            f"smiles: expected SMILES in column {name!r}, got {values[0]!r}, which RDKit cannot read; choose "
            "another with --smiles"
        )


def candidates(columns: Sequence[str], smiles: str) -> list[str]:
    """The possible targets: all columns but the SMILES and those named like identifiers, splits or dates.

    >>> candidates(["smiles", "mol_id", "logS", "split"], "smiles")
    ['logS']
    """
    return [name for name in columns if name != smiles and _plain(name) not in NOT_TARGETS and not _is_id(name)]


def find_targets(columns: Sequence[str], sample: Mapping[str, Sequence[str]], smiles: str) -> list[str]:
    """The targets: the only numeric column, else one of a usual name, else all columns if they are binary labels.

    Without numbers and binary labels, it is the only column of several classes.
    """
    others = candidates(columns, smiles)
    numeric = [name for name in others if _numeric_fraction(sample[name]) > 0.5 or _with_commas(sample[name])]
    labels = [name for name in others if _two_classes(sample[name])]
    likely = numeric or labels or [name for name in others if _several_classes(sample[name])]
    usual = [name for alias in TARGET_NAMES for name in likely if _plain(name) == alias]
    if usual or len(likely) == 1:
        return usual[:1] or likely
    if likely and all(_two_classes(sample[name]) or is_constant(sample[name]) for name in likely):
        return likely
    wanted = f"got {', '.join(likely)}" if likely else f"got none among {', '.join(columns)}"
    raise ValueError(f"target: expected one column to predict, {wanted}; choose it with --target")


def is_constant(column: Sequence[str]) -> bool:
    """Whether a column has fewer than two distinct values.

    >>> is_constant(["1", "1.0", ""]), is_constant(["1", "0"])
    (True, False)
    """
    return len(_distinct(column)) < 2


def read_targets(values: Mapping[str, Sequence[str]], task: str | None = None) -> tuple[Task, list[Target]]:
    """The task and the classes of each target, inferred from all values unless ``task`` is given.

    A few values beside two classes do not change the task: they belong to neither class.
    """
    if task is not None:
        check_option("task", task, TASKS)
    for name, column in values.items():
        if commas := _with_commas(column):
            raise ValueError(
                f"target {name!r}: expected numbers such as 1234.5, got {commas[0]!r}; write them with a decimal point "
                "and without commas"
            )
    distinct = {name: _distinct(column) for name, column in values.items()}
    constant = [name for name, values_of in distinct.items() if len(values_of) < 2]
    if constant:
        value = ", ".join(distinct[constant[0]]) or "none"
        raise ValueError(
            f"target {constant[0]!r}: expected at least two distinct values, got {value}; a constant cannot be "
            "learned, choose another column"
        )
    if task == "multiclass" or (task is None and any(map(_several_classes, values.values()))):
        return "multiclass", [_multiclass_target(values)]
    classes = {name: _two_classes(column, explicit=task is not None) for name, column in values.items()}
    many = [name for name, pair in classes.items() if not pair]
    if task == "regression" or (task is None and many):
        _check_numbers(values, [name for name in values if name not in many] if task is None else [])
        return "regression", [Target(name) for name in values]
    if many:
        raise ValueError(
            f"target {many[0]!r}: expected two classes, got {len(distinct[many[0]])} distinct values; use "
            "--task regression for numbers, --task multiclass for classes, or blank those of neither class"
        )
    targets = [Target(name, _order_classes(pair)) for name, pair in classes.items()]
    return ("binary" if len(targets) == 1 else "multi-label"), targets


def _several_classes(column: Sequence[str]) -> bool:
    """Whether a column has three or more classes: texts, none of them rare.

    Numbers are classes only where the task is given, and two classes beside which others are rare remain two.

    >>> _several_classes(["low", "high", "medium"] * 5), _several_classes(["1", "2", "3"] * 5)
    (True, False)
    """
    counts = _counts(column)
    if not 3 <= len(counts) <= MOST_CLASSES or _numeric_fraction(column) > 0.5 or _two_classes(column):
        return False
    return min(counts.values()) >= PER_CLASS


def _multiclass_target(values: Mapping[str, Sequence[str]]) -> Target:
    """The only target, with all its values as classes, in ascending order."""
    if len(values) > 1:
        raise ValueError(
            f"targets: expected one column of several classes, got {', '.join(values)}; fit them separately with "
            "--target"
        )
    ((name, column),) = values.items()
    classes = sorted(_distinct(column), key=lambda text: (_number(text) or 0.0, text))
    fractions = [text for text in classes if (number := _number(text)) is not None and number != round(number)]
    if fractions:
        raise ValueError(
            f"target {name!r}: expected text or integers as classes, got {fractions[0]!r}; use --task regression"
        )
    if not 3 <= len(classes) <= MOST_CLASSES:
        remedy = "--task binary" if len(classes) == 2 else "--task regression, or merge classes"
        raise ValueError(f"target {name!r}: expected 3 to {MOST_CLASSES} classes, got {len(classes)}; use {remedy}")
    return Target(name, tuple(classes))


def _check_numbers(values: Mapping[str, Sequence[str]], binary: Sequence[str]) -> None:
    for name, column in values.items():
        if _numeric_fraction(column) <= 0.5:
            texts = [text for text in _distinct(column) if _number(text) is None]
            classes = "" if len(texts) == 2 else f" or classes of {PER_CLASS} rows or more"
            raise ValueError(
                f"target {name!r}: expected numbers{classes}, got {len(texts)} distinct texts such as {texts[0]!r}; "
                "choose another column, or --task multiclass"
            )
    if binary:
        raise ValueError(
            f"targets: expected all numbers or all classes, got two values in {', '.join(binary)} and more in others; "
            "fit them separately with --target, or all with --task regression"
        )


def _counts(column: Sequence[str]) -> dict[str, int]:
    """The counts of values that are not missing; numbers are compared as numbers, text without case."""
    spelled: dict[float | str, str] = {}
    counts: dict[str, int] = {}
    for text, count in Counter(text.strip() for text in column).items():
        if not is_missing(text):
            number = _number(text)
            name = spelled.setdefault(text.lower() if number is None else number, text)
            counts[name] = counts.get(name, 0) + count
    return counts


def _distinct(column: Sequence[str]) -> list[str]:
    return list(_counts(column))


def _two_classes(column: Sequence[str], explicit: bool = False) -> list[str]:
    """The two classes of a column; empty if it is not binary.

    They are its only two values, or its only two numbers if most values are numbers, or two texts beside which others
    are rare; if the task is ``explicit``, also two numbers beside which others are rare.
    """
    counts = _counts(column)
    numbers = [text for text in counts if _number(text) is not None]
    if len(counts) < 3:
        return list(counts) if len(counts) == 2 else []
    if len(numbers) == 2 and _numeric_fraction(column, bounds=False) > 0.5:
        return numbers
    first, second, *others = sorted(counts, key=lambda text: -counts[text])
    stray = sum(counts[text] for text in others)
    few = stray <= STRAY * counts[second] and (explicit or not {first, second} & set(numbers))
    return [first, second] if few else []


def _order_classes(values: Sequence[str]) -> tuple[str, str]:
    """The negative and the positive class."""
    low, high = sorted(values, key=lambda text: (_number(text) or 0.0, text))
    return (high, low) if low.lower() in POSITIVE and high.lower() not in POSITIVE else (low, high)


def _numeric_fraction(column: Sequence[str], bounds: bool = True) -> float:
    """The fraction of numbers among the values that are not missing, bounds such as > 10 included or not."""
    present = [text for text in column if not is_missing(text)]
    numeric = [_number(text) is not None or (bounds and read_bound(text) is not None) for text in present]
    return sum(numeric) / len(present) if present else 0.0


def _with_commas(column: Sequence[str]) -> list[str]:
    """Numbers with a comma, unless they are few; the comma may be a decimal or a thousands separator."""
    present = [text.strip() for text in column if not is_missing(text)]
    commas = [text for text in present if re.fullmatch(r"[+-]?\d+(,\d+)+(\.\d*)?", text)]
    return commas if len(commas) > STRAY * len(present) else []


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _readable(values: Sequence[str]) -> tuple[float, float]:
    """The fraction of the values that RDKit parses, and their mean number of atoms."""
    from dgn.molecules.featurize import parse

    present = [text for text in values if text.strip()]
    atoms = [molecule.GetNumAtoms() for molecule in map(parse, present) if not isinstance(molecule, str)]
    return (len(atoms) / len(present), sum(atoms) / len(atoms)) if atoms else (0.0, 0.0)


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def _is_id(name: str) -> bool:
    return _plain(name).endswith("_id") or _plain(name).startswith(("unnamed", "id_"))
