"""Molecules with targets from the rows of a table, and a remark on every unusual row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from dgn.data.datasets.smiles import standard_smiles
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.encodings import FEATURES
from dgn.data.splits import group
from dgn.molecules.columns import (
    Target,
    Task,
    candidates,
    check_smiles,
    find_smiles,
    find_targets,
    is_constant,
    is_missing,
    read_targets,
    read_value,
)
from dgn.molecules.featurize import Valence, featurize, parse
from dgn.molecules.table import UNREADABLE, Row, Table, check_text

SAMPLE = 200  # values of each column used to detect SMILES and targets
SHOWN = 8  # lines listed in a message
LARGEST = float(torch.finfo(torch.float32).max)  # feature that networks can read
IMPOSSIBLE = "impossible valence"  # how remarks on these begin
FEWEST = 10  # molecules that can be split and fitted


@dataclass(frozen=True)
class Problem:
    """A remark on some rows, the action taken, and their lines.

    >>> print(Problem("RDKit cannot read the SMILES", "left out", (4, 9)))
    2 rows: RDKit cannot read the SMILES; left out (lines 4, 9)
    """

    what: str
    action: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines[:SHOWN]))
        more = f" and {len(self.lines) - SHOWN} more" if len(self.lines) > SHOWN else ""
        rows, lines = ("1 row", "line") if len(self.lines) == 1 else (f"{len(self.lines)} rows", "lines")
        return f"{rows}: {self.what}; {self.action} ({lines} {shown}{more})"


@dataclass(frozen=True)
class Molecules:
    """Usable molecules. ``keys`` are canonical SMILES, ``lines`` their lines in the table.

    Shapes:
        ``values`` [R, T] float64, NaN where missing.
    """

    smiles: tuple[str, ...]
    lines: tuple[int, ...]
    values: Tensor
    keys: tuple[str, ...]
    graphs: PackedGraphs
    split: tuple[str, ...] | None = None  # values of a split column
    # Features of molecules beside their graphs are graphs.graphs["features"].


@dataclass(frozen=True)
class TableData:
    """The contents of a table."""

    smiles: str
    task: Task
    targets: tuple[Target, ...]
    rows: int
    molecules: Molecules
    problems: tuple[Problem, ...] = field(default_factory=tuple)
    notes: tuple[str, ...] = ()
    features: tuple[str, ...] = ()


def read_table(
    table: Table,
    smiles: str | None = None,
    targets: Sequence[str] = (),
    task: str | None = None,
    split: str | None = None,
    valence: Valence = "refuse",
    features: Sequence[str] = (),
) -> TableData:
    """The molecules and targets of a table; ``split`` names a column that is read along.

    ``features`` are columns of numbers that networks read beside the graphs. Molecules with an impossible
    ``valence`` are left out, or kept.

    Columns that are not given are detected, the task is inferred. No row is fatal; every row left out is reported.
    """
    sample = _sample(table)
    if smiles:
        check_smiles(table.columns[table.position(smiles)], sample)
    smiles = smiles or find_smiles(table.columns, sample)
    features = tuple(table.columns[table.position(name)] for name in features)
    others = [name for name in table.columns if name not in features]
    names = [table.columns[table.position(name)] for name in targets] or find_targets(others, sample, smiles)
    used = [smiles, *names, *features, *([split] if split else [])]
    if len(set(used)) < len(used):
        twice = next(name for name in used if used.count(name) > 1)
        raise ValueError(
            f"columns: expected distinct ones for SMILES, targets, features and split, got {twice!r} twice; choose "
            "another with --smiles, --target, --features or --split"
        )
    positions = [table.position(name) for name in used]
    rows = [Row(row.line, [row.values[index] for index in positions], row.problem) for row in table.rows()]
    what = "not as many values as columns, a quote that is not closed, or a value too long"
    ragged = Problem(what, "left out", tuple(row.line for row in rows if row.problem not in ("", UNREADABLE)))
    unreadable = Problem(
        "RDKit cannot read the record", "left out", tuple(row.line for row in rows if row.problem == UNREADABLE)
    )
    first = 1 + len(names)
    numbers = {row.line: read_features(row.values[first : first + len(features)]) for row in rows if not row.problem}
    unknown = Problem(
        "no number in a column of --features", "left out", tuple(n for n, v in numbers.items() if v is None)
    )
    valid = [row for row in rows if numbers.get(row.line) is not None]
    columns = {name: [row.values[index + 1] for row in valid] for index, name in enumerate(names)}
    varied = {name: values for name, values in columns.items() if not is_constant(values)}
    constant = [] if targets or not varied else [name for name in names if name not in varied]
    inferred, columns_read = read_targets(varied if constant else columns, task)
    check_text(table.path, [*table.columns, *(text for target in columns_read for text in target.classes or ())])
    positions = [index for index, name in enumerate(names) if name not in constant]
    values, invalid = _values(valid, positions, columns_read)
    molecules, problems = read_molecules(
        [row.values[0] for row in valid], values, [row.line for row in valid],
        [row.values[-1] for row in valid] if split else None, valence,
        torch.tensor([numbers[row.line] for row in valid], dtype=torch.float64) if features else None,
    )  # fmt: skip
    problems = [problem for problem in (ragged, unreadable, unknown, invalid, *problems) if problem.lines]
    unused = [] if targets else [name for name in candidates(others, smiles) if name not in used]
    notes = _notes(constant, unused)
    return TableData(smiles, inferred, tuple(columns_read), len(rows), molecules, tuple(problems), notes, features)


def read_molecules(
    smiles: Sequence[str],
    values: Tensor,
    lines: Sequence[int],
    split: Sequence[str] | None = None,
    valence: Valence = "refuse",
    features: Tensor | None = None,
) -> tuple[Molecules, list[Problem]]:
    """The usable molecules, with ``features`` [R, F] beside their graphs, and remarks on the rows.

    A row without a readable SMILES or any target is left out. Duplicates, salts (several components) and single atoms
    are kept.
    """
    graphs, problems, impossible = featurize(smiles, valence=valence)
    readable = [row for row, problem in enumerate(problems) if not problem]
    labelled = ~values[torch.tensor(readable, dtype=torch.long)].isnan().all(dim=1)
    used = [row for row, is_labelled in zip(readable, labelled.tolist(), strict=True) if is_labelled]
    if len(used) < FEWEST:
        raise ValueError(
            f"table: expected at least {FEWEST} molecules with targets, got {len(used)} in {len(smiles)} rows, of "
            f"which {len(readable)} have SMILES that RDKit can read; add rows, or choose other columns"
        )
    molecules = Molecules(
        tuple(smiles[row].strip() for row in used),
        tuple(lines[row] for row in used),
        values[torch.tensor(used, dtype=torch.long)],
        tuple(canonical(smiles[row]) for row in used),
        with_features(graphs.select(labelled.nonzero()[:, 0]), None if features is None else features[used]),
        None if split is None else tuple(split[row] for row in used),
    )
    unlabelled = [lines[row] for row, is_labelled in zip(readable, labelled.tolist(), strict=True) if not is_labelled]
    left_out = [
        *_by_reason(problems, lines, "left out"),
        Problem("no target value", "left out", tuple(unlabelled)),
        *_by_reason(impossible, lines, "kept"),
    ]
    return molecules, [*(problem for problem in left_out if problem.lines), *remarks(molecules)]


def with_features(graphs: PackedGraphs, features: Tensor | None) -> PackedGraphs:
    """The graphs with features [G, F], if there are any."""
    return graphs if features is None else graphs.with_values(graphs={FEATURES: features.float()})


def read_features(values: Sequence[str]) -> list[float] | None:
    """The numbers in columns of features; None if one is missing, no number, or beyond ``LARGEST``.

    >>> read_features(["7.4", "1e-3"]), read_features(["7.4", "n/a"]), read_features(["1e40"])
    ([7.4, 0.001], None, None)
    """
    numbers = [read_value(value, None) for value in values]
    known = [number for number in numbers if number is not None and abs(number) <= LARGEST]  # False for NaN
    return known if len(known) == len(numbers) else None


def _by_reason(texts: Sequence[str], lines: Sequence[int], action: str) -> list[Problem]:
    """A remark for the impossible valences of each element, and one for all other SMILES that cannot be used."""
    reasons: dict[str, list[int]] = {}
    for text, line in zip(texts, lines, strict=True):
        if text:
            element = text.partition(" (")[0] if text.startswith(IMPOSSIBLE) else "RDKit cannot read the SMILES"
            reasons.setdefault(element, []).append(line)
    return [Problem(reason, action, tuple(of_reason)) for reason, of_reason in sorted(reasons.items())]


def canonical(smiles: str) -> str:
    """The canonical SMILES of a molecule, without isotopes and atom map numbers.

    >>> canonical("OC"), canonical("CO"), canonical("[CH3:1][OH:2]")
    ('CO', 'CO', 'CO')
    """
    return standard_smiles(parse(smiles))


def take(molecules: Molecules, index: Tensor) -> Molecules:
    """The molecules at ``index``, in its order."""
    rows = index.tolist()
    return replace(
        molecules,
        smiles=tuple(molecules.smiles[row] for row in rows),
        lines=tuple(molecules.lines[row] for row in rows),
        values=molecules.values[index],
        keys=tuple(molecules.keys[row] for row in rows),
        graphs=molecules.graphs.select(index),
        split=None if molecules.split is None else tuple(molecules.split[row] for row in rows),
    )


def remarks(molecules: Molecules) -> list[Problem]:
    """Remarks on unusual rows that are kept."""
    duplicates = [rows for rows in group(molecules.keys).values() if len(rows) > 1]
    atoms = molecules.graphs.node_pointer.diff().tolist()
    differing = [row for rows in duplicates if _differ(molecules.values[rows]) for row in rows]
    equal = [row for rows in duplicates if not _differ(molecules.values[rows]) for row in rows]
    rows_by_remark = {
        "duplicate molecules with different values": differing,
        "duplicate molecules with the same values": equal,
        "salts and mixtures of several components": [n for n, key in enumerate(molecules.keys) if "." in key],
        "some target values missing": molecules.values.isnan().any(dim=1).nonzero()[:, 0].tolist(),
        "single atoms": [row for row, count in enumerate(atoms) if count == 1],
    }
    lines = {what: tuple(sorted(molecules.lines[row] for row in rows)) for what, rows in rows_by_remark.items()}
    return [Problem(what, "kept", of_remark) for what, of_remark in lines.items() if of_remark]


def update_remarks(problems: Sequence[Problem], molecules: Molecules) -> tuple[Problem, ...]:
    """The remarks after rows were left out: those on rows that are kept become those on the molecules that remain."""
    remaining = set(molecules.lines)
    impossible = [problem for problem in problems if problem.action == "kept" and problem.what.startswith(IMPOSSIBLE)]
    kept = [replace(each, lines=tuple(line for line in each.lines if line in remaining)) for each in impossible]
    others = [problem for problem in problems if problem.action != "kept"]
    return (*others, *(problem for problem in kept if problem.lines), *remarks(molecules))


def _differ(values: Tensor) -> bool:
    high, low = values.nan_to_num(nan=-math.inf).amax(dim=0), values.nan_to_num(nan=math.inf).amin(dim=0)
    return bool((high > low).any())


def _values(rows: Sequence[Row], positions: Sequence[int], targets: Sequence[Target]) -> tuple[Tensor, Problem]:
    """Target values [R, T], and a remark on the rows whose values cannot be parsed."""
    invalid, values = [], []
    for row in rows:
        pairs = zip(positions, targets, strict=True)
        parsed = [read_value(row.values[index + 1], target.classes) for index, target in pairs]
        if None in parsed:
            invalid.append(row.line)
        values.append([math.nan if value is None else value for value in parsed])
    problem = Problem("values that are not numbers, or of neither class", "treated as missing", tuple(invalid))
    return torch.tensor(values, dtype=torch.float64).reshape(len(rows), len(targets)), problem


def _notes(constant: Sequence[str], unused: Sequence[str]) -> tuple[str, ...]:
    notes = {"constant columns, left out": constant, "columns that are not predicted": unused}
    return tuple(f"{note}: {', '.join(names)}" for note, names in notes.items() if names)


def _sample(table: Table) -> dict[str, list[str]]:
    """The first values of each column that are not missing."""
    sample: dict[str, list[str]] = {name: [] for name in table.columns}
    for row in table.rows():
        unfilled = [
            (name, value) for name, value in zip(table.columns, row.values, strict=True) if len(sample[name]) < SAMPLE
        ]
        if not unfilled:
            break
        for name, value in unfilled:
            if not is_missing(value):
                sample[name].append(value)
    return sample
