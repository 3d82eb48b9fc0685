"""Which columns of a table hold the molecules and what is to be predicted."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dgn.graph.checks import check_option

Task = Literal["regression", "binary", "multi-label"]
TASKS: tuple[Task, ...] = ("regression", "binary", "multi-label")
MISSING = frozenset(("", "na", "n/a", "n.a.", "#n/a", "<na>", "nan", "null", "none", "-", "?", "missing", "nd", "n.d."))
SMILES_NAMES = ("smiles", "canonical_smiles", "isomeric_smiles", "smi", "structure", "molecule", "mol")
TARGET_NAMES = ("y", "target", "label", "value", "activity", "property", "measured")
NOT_TARGETS = ("id", "idx", "index", "number", "no", "cid", "cas", "row", "split", "fold", "set", "date", "year", "")
POSITIVE = ("1", "true", "yes", "y", "active", "positive", "pos", "toxic", "hit", "t")
READABLE = 0.8  # share of a column's values that must be molecules
STRAY = 0.1  # values of neither class, at most, for each value of the rarer class


@dataclass(frozen=True)
class Target:
    """A column to predict; ``classes`` are the two values it may have, or None for numbers."""

    name: str
    classes: tuple[str, str] | None = None


def is_missing(text: str) -> bool:
    """Whether a value says that there is none.

    >>> is_missing(" N/A "), is_missing("0")
    (True, False)
    """
    return text.strip().lower() in MISSING


def read_value(text: str, classes: tuple[str, str] | None) -> float | None:
    """The number that a value stands for: NaN where it is missing, nothing where it cannot be understood.

    >>> read_value("1.5", None), read_value("inactive", ("inactive", "active")), read_value("> 10", None)
    (1.5, 0.0, None)
    """
    text = text.strip()
    if is_missing(text):
        return math.nan
    number = _number(text)
    if classes is None:
        return number
    for place, name in enumerate(classes):
        if text.lower() == name.lower() or (number is not None and number == _number(name)):
            return float(place)
    return None


def find_smiles(columns: Sequence[str], sample: Mapping[str, Sequence[str]]) -> str:
    """The column of SMILES: by its name, else by what RDKit can read in a sample of the rows."""
    known = [name for known in SMILES_NAMES for name in columns if _plain(name) == known]
    others = [name for name in columns if "smiles" in name.lower() and name not in known]
    known, others = ([name for name in names if _readable(sample[name])[0] > 0.5] for names in (known, others))
    if known or len(others) == 1:
        return (known or others)[0]
    if others:
        raise ValueError(f"smiles: expected one column of SMILES, got {', '.join(others)}; choose one with --smiles")
    found = {name: _readable(values) for name, values in sample.items()}
    likely = [name for name, (share, _) in found.items() if share >= READABLE]
    if not likely:
        raise ValueError(
            f"smiles: expected a column of SMILES, got columns {', '.join(columns)} in which RDKit can read none; name "
            "it with --smiles"
        )
    best = max(likely, key=lambda name: found[name][1])
    atoms = _readable([best])[1]
    if atoms >= 3 or (atoms and any(_number(name) is not None for name in columns)):
        raise ValueError(
            f"header: expected names of columns in the first line, got {best!r}, which is a molecule; put a line such "
            "as smiles,y above it"
        )
    return best


def check_smiles(name: str, sample: Mapping[str, Sequence[str]]) -> None:
    """Refuse a column that holds no SMILES, but something else."""
    written = [text for text in sample[name] if text.strip()]
    if written and not _readable(written)[0]:
        raise ValueError(
            f"smiles: expected SMILES in column {name!r}, got {written[0]!r} there, which RDKit cannot read; name "
            "another with --smiles"
        )


def candidates(columns: Sequence[str], smiles: str) -> list[str]:
    """The columns that may be ones to predict: all but the SMILES, and those of numbers and dates by their names.

    >>> candidates(["smiles", "mol_id", "logS", "split"], "smiles")
    ['logS']
    """
    return [name for name in columns if name != smiles and _plain(name) not in NOT_TARGETS and not _is_id(name)]


def find_targets(columns: Sequence[str], sample: Mapping[str, Sequence[str]], smiles: str) -> list[str]:
    """The columns to predict: the only one with numbers, or one of a telling name, or all if they are labels."""
    others = candidates(columns, smiles)
    numeric = [name for name in others if _share_of_numbers(sample[name]) > 0.5 or _with_commas(sample[name])]
    likely = numeric or [name for name in others if _two(sample[name])]
    telling = [name for known in TARGET_NAMES for name in likely if _plain(name) == known]
    if telling or len(likely) == 1:
        return telling[:1] or likely
    if likely and all(_two(sample[name]) or is_constant(sample[name]) for name in likely):
        return likely
    wanted = f"one of {', '.join(likely)}" if likely else f"got columns {', '.join(columns)}"
    raise ValueError(f"target: expected to know the column to predict, {wanted}; name it with --target")


def is_constant(column: Sequence[str]) -> bool:
    """Whether a column has fewer than two different values.

    >>> is_constant(["1", "1.0", ""]), is_constant(["1", "0"])
    (True, False)
    """
    return len(_distinct(column)) < 2


def read_targets(values: Mapping[str, Sequence[str]], task: str | None = None) -> tuple[Task, list[Target]]:
    """What is to be done with the columns to predict, and the classes of each: guessed from all their values.

    Few values beside two classes do not make a column another: the first are of neither class.
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
    constant = [name for name, found in distinct.items() if len(found) < 2]
    if constant:
        found = ", ".join(distinct[constant[0]]) or "none"
        raise ValueError(
            f"target {constant[0]!r}: expected at least two different values, got {found}; there is nothing to learn "
            "from it, choose another column"
        )
    classes = {name: _two(column, asked=task is not None) for name, column in values.items()}
    many = [name for name, found in classes.items() if not found]
    if task == "regression" or (task is None and many):
        _check_numbers(values, [name for name in values if name not in many] if task is None else [])
        return "regression", [Target(name) for name in values]
    if many:
        raise ValueError(
            f"target {many[0]!r}: expected two classes, got {len(distinct[many[0]])} different values; use "
            "--task regression for numbers, empty those of neither class, or make a column for each class"
        )
    targets = [Target(name, _classes(found)) for name, found in classes.items()]
    return ("binary" if len(targets) == 1 else "multi-label"), targets


def _check_numbers(values: Mapping[str, Sequence[str]], two: Sequence[str]) -> None:
    for name, column in values.items():
        if _share_of_numbers(column) <= 0.5:
            texts = [text for text in _distinct(column) if _number(text) is None]
            raise ValueError(
                f"target {name!r}: expected numbers{'' if len(texts) == 2 else ' or two classes'}, got {len(texts)} "
                f"different texts such as {texts[0]!r}; choose another column or task, or make one of 0 and 1 for each"
            )
    if two:
        raise ValueError(
            f"targets: expected all numbers or all classes, got two values in {', '.join(two)} and more in the others; "
            "fit them one by one with --target, or all as numbers with --task regression"
        )


def _counts(column: Sequence[str]) -> dict[str, int]:
    """How often each value stands that is not missing; a number is one however it is spelled, a text in any case."""
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


def _two(column: Sequence[str], asked: bool = False) -> list[str]:
    """The two classes of a column; nothing if it has others.

    They are its only two values, or its only two numbers among which texts are the fewer, or two texts beside which
    others hardly occur; where classes are ``asked`` for, two numbers beside which others hardly occur as well.
    """
    counts = _counts(column)
    numbers = [text for text in counts if _number(text) is not None]
    if len(counts) < 3:
        return list(counts) if len(counts) == 2 else []
    if len(numbers) == 2 and _share_of_numbers(column) > 0.5:
        return numbers
    first, second, *others = sorted(counts, key=lambda text: -counts[text])
    stray = sum(counts[text] for text in others)
    few = stray <= STRAY * counts[second] and (asked or not {first, second} & set(numbers))
    return [first, second] if few else []


def _classes(values: Sequence[str]) -> tuple[str, str]:
    low, high = sorted(values, key=lambda text: (_number(text) or 0.0, text))
    return (high, low) if low.lower() in POSITIVE and high.lower() not in POSITIVE else (low, high)


def _share_of_numbers(column: Sequence[str]) -> float:
    known = [text for text in column if not is_missing(text)]
    return sum(_number(text) is not None for text in known) / len(known) if known else 0.0


def _with_commas(column: Sequence[str]) -> list[str]:
    """Numbers with a comma, unless they are few; whether it parts decimals or thousands, they do not tell."""
    known = [text.strip() for text in column if not is_missing(text)]
    found = [text for text in known if re.fullmatch(r"[+-]?\d+(,\d+)+(\.\d*)?", text)]
    return found if len(found) > STRAY * len(known) else []


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _readable(values: Sequence[str]) -> tuple[float, float]:
    """Which share of the values RDKit can read, and how many atoms they have on average."""
    from dgn.molecules.featurize import parse

    known = [text for text in values if text.strip()]
    atoms = [molecule.GetNumAtoms() for molecule in map(parse, known) if not isinstance(molecule, str)]
    return (len(atoms) / len(known), sum(atoms) / len(atoms)) if atoms else (0.0, 0.0)


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_")


def _is_id(name: str) -> bool:
    return _plain(name).endswith("_id") or _plain(name).startswith(("unnamed", "id_"))
