"""Molecules with targets from the rows of a table, and a remark on every unusual row."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, get_args

import torch
from torch import Tensor

from dgn.data.benchmark import CENSORING, GRAPH_ATTR, SAMPLE_WEIGHT
from dgn.data.datasets.pairs import join_smiles, split_smiles
from dgn.data.datasets.smiles import CENTRES, PAIRS, standard_smiles
from dgn.data.packed import PackedGraphs
from dgn.data.splits import group
from dgn.molecules.column_choice import UsedColumns, choose_columns
from dgn.molecules.columns import (
    Target,
    Task,
    candidates,
    is_constant,
    read_bound,
    read_targets,
    read_value,
)
from dgn.molecules.featurize import Valence, featurize, parse
from dgn.molecules.table import UNREADABLE, Row, Table, check_text
from dgn.molecules.workbook import NO_VALUE

SHOWN = 8  # lines listed in a message
LARGEST = float(torch.finfo(torch.float32).max)  # feature that networks can read
IMPOSSIBLE = "impossible valence"  # how remarks on these begin
Censored = Literal["keep", "drop"]
CENSORED: tuple[Censored, ...] = get_args(Censored)  # values such as > 10: bounds, or missing
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
    # graphs.graphs has what else is known of molecules: features "graph_attr", weights "sample_weight", and "censoring"
    # of values that are bounds.


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
    weights: str | None = None
    partner: str | None = None


def read_table(
    table: Table,
    smiles: str | None = None,
    targets: Sequence[str] = (),
    task: str | None = None,
    split: str | None = None,
    valence: Valence = "refuse",
    features: Sequence[str] = (),
    weights: str | None = None,
    censored: Censored = "keep",
    partner: str | None = None,
) -> TableData:
    """The molecules and targets of a table; ``split`` names a column that is read along.

    ``features`` are columns of numbers that networks read beside the graphs, ``weights`` is a column of weights of the
    rows in training. Molecules with an impossible ``valence`` are left out, or kept. ``censored`` values of regression,
    such as > 10, are kept as bounds, or dropped: treated as missing. ``partner`` is a second column of SMILES: rows are
    pairs of molecules, such as solute and solvent.

    Columns that are not given are detected, the task is inferred. No row is fatal; every row left out is reported.
    """
    used = choose_columns(table, smiles, targets, split, features, weights, partner)
    valid = _valid_rows(table, used)
    rows = valid.rows
    columns = {name: [row.values[index + 1] for row in rows] for index, name in enumerate(used.targets)}
    varied = {name: values for name, values in columns.items() if not is_constant(values)}
    constant = [] if targets or not varied else [name for name in used.targets if name not in varied]
    inferred, columns_read = read_targets(varied if constant else columns, task)
    check_text(table.path, [*table.columns, *(text for target in columns_read for text in target.classes or ())])
    positions = [index for index, name in enumerate(used.targets) if name not in constant]
    values, censoring, remarked = _values(rows, positions, columns_read, censored)
    molecules, problems = read_molecules(
        [row.values[0] for row in rows], values, [row.line for row in rows],
        [row.values[-1] for row in rows] if split else None, valence, valid.features, valid.weights, censoring,
        PAIRS if partner else CENTRES,
    )  # fmt: skip
    problems = [problem for problem in (*valid.problems, *remarked, *problems) if problem.lines]
    unused = [] if targets else [name for name in candidates(used.others, used.smiles) if name not in used.names]
    return TableData(
        used.smiles,
        inferred,
        tuple(columns_read),
        valid.total,
        molecules,
        tuple(problems),
        (*([table.note] if table.note else []), *_notes(constant, unused)),
        used.features,
        used.weights,
        partner,
    )


class ValidRows(NamedTuple):
    """Rows with all values that are needed, their features [R, F] and weights [R], and why others are left out."""

    rows: list[Row]
    features: Tensor | None
    weights: Tensor | None
    problems: tuple[Problem, ...]
    total: int


def _valid_rows(table: Table, used: UsedColumns) -> ValidRows:
    """The rows of a table that can be read, whatever their molecules are."""
    positions = [table.position(name) for name in used.names]
    rows = [Row(row.line, [row.values[index] for index in positions], row.problem) for row in _paired(table, used)]
    what = "not as many values as columns, a quote that is not closed, or a value too long"
    reasons = {UNREADABLE: "RDKit cannot read the record", NO_VALUE: NO_VALUE}
    ragged = Problem(what, "left out", tuple(row.line for row in rows if row.problem and row.problem not in reasons))
    unreadable = [
        Problem(text, "left out", tuple(row.line for row in rows if row.problem == reason))
        for reason, text in reasons.items()
    ]
    first = 1 + len(used.targets)
    last = first + len(used.features)
    numbers = {row.line: read_features(row.values[first:last]) for row in rows if not row.problem}
    unknown = Problem(
        "no number in a column of --features", "left out", tuple(n for n, v in numbers.items() if v is None)
    )
    valid = [row for row in rows if numbers.get(row.line) is not None]
    weight_of = {row.line: read_weight(row.values[last]) for row in valid} if used.weights else {}
    unweighted = Problem(
        "no weight of 0 or more in the column of --weights",
        "left out",
        tuple(n for n, w in weight_of.items() if w is None),
    )
    valid = [row for row in valid if weight_of.get(row.line, 1.0) is not None]
    features = torch.tensor([numbers[row.line] for row in valid], dtype=torch.float64) if used.features else None
    weights = torch.tensor([weight_of[row.line] for row in valid], dtype=torch.float64) if used.weights else None
    return ValidRows(valid, features, weights, (ragged, *unreadable, unknown, unweighted), len(rows))


def _paired(table: Table, used: UsedColumns) -> Iterator[Row]:
    """The rows, with both SMILES of a pair as one text in the place of the first."""
    columns = [table.position(name) for name in (used.smiles, used.partner) if name]
    for row in table.rows():
        row.values[columns[0]] = join_smiles([row.values[index].strip() for index in columns])
        yield row


def read_molecules(
    smiles: Sequence[str],
    values: Tensor,
    lines: Sequence[int],
    split: Sequence[str] | None = None,
    valence: Valence = "refuse",
    features: Tensor | None = None,
    weights: Tensor | None = None,
    censoring: Tensor | None = None,
    featurization: str = CENTRES,
) -> tuple[Molecules, list[Problem]]:
    """The usable molecules, and remarks on the rows.

    ``features`` [R, F], ``weights`` [R] and ``censoring`` [R, T] are kept beside the graphs.

    With the ``featurization`` ``PAIRS``, each text has the SMILES of two molecules.

    A row without a readable SMILES or any target is left out. Duplicates, salts (several components) and single atoms
    are kept.
    """
    graphs, problems, impossible = featurize(smiles, featurization, valence)
    readable = [row for row, problem in enumerate(problems) if not problem]
    labelled = ~values[torch.tensor(readable, dtype=torch.long)].isnan().all(dim=1)
    used = [row for row, is_labelled in zip(readable, labelled.tolist(), strict=True) if is_labelled]
    if len(used) < FEWEST:
        raise ValueError(
            f"table: expected at least {FEWEST} molecules with targets, got {len(used)} in {len(smiles)} rows, of "
            f"which {len(readable)} have SMILES that RDKit can read; add rows, or choose other columns"
        )
    graphs = with_features(graphs.select(labelled.nonzero()[:, 0]), None if features is None else features[used])
    if weights is not None:
        graphs = graphs.with_values(graphs={SAMPLE_WEIGHT: weights[used].float()})
    if censoring is not None and bool(censoring[used].any()):
        graphs = graphs.with_values(graphs={CENSORING: censoring[used]})
    molecules = Molecules(
        tuple(smiles[row].strip() for row in used),
        tuple(lines[row] for row in used),
        values[torch.tensor(used, dtype=torch.long)],
        tuple(canonical(smiles[row]) for row in used),
        graphs,
        None if split is None else tuple(split[row] for row in used),
    )
    unlabelled = [lines[row] for row, is_labelled in zip(readable, labelled.tolist(), strict=True) if not is_labelled]
    left_out = [
        *problems_by_reason(problems, lines, "left out"),
        Problem("no target value", "left out", tuple(unlabelled)),
        *problems_by_reason(impossible, lines, "kept"),
    ]
    return molecules, [*(problem for problem in left_out if problem.lines), *remarks(molecules)]


def with_features(graphs: PackedGraphs, features: Tensor | None) -> PackedGraphs:
    """The graphs with features [G, F], if there are any, behind the descriptors that they have."""
    if features is None:
        return graphs
    present = [graphs.graphs[GRAPH_ATTR]] if GRAPH_ATTR in graphs.graphs else []
    return graphs.with_values(graphs={GRAPH_ATTR: torch.cat([*present, features.float()], dim=1)})


def read_features(values: Sequence[str]) -> list[float] | None:
    """The numbers in columns of features; None if one is missing, no number, or beyond ``LARGEST``.

    >>> read_features(["7.4", "1e-3"]), read_features(["7.4", "n/a"]), read_features(["1e40"])
    ([7.4, 0.001], None, None)
    """
    numbers = [read_value(value, None) for value in values]
    usable = [number for number in numbers if number is not None and abs(number) <= LARGEST]  # False for NaN
    return usable if len(usable) == len(numbers) else None


def read_weight(text: str) -> float | None:
    """The weight of a row; None if it is missing, no number, negative, or beyond ``LARGEST``.

    >>> read_weight("0.5"), read_weight("-1"), read_weight("n/a")
    (0.5, None, None)
    """
    number = read_value(text, None)
    return number if number is not None and 0 <= number <= LARGEST else None  # False for NaN


def problems_by_reason(texts: Sequence[str], lines: Sequence[int], action: str) -> list[Problem]:
    """A remark for the impossible valences of each element, and one for all other SMILES that cannot be used."""
    reasons: dict[str, list[int]] = {}
    for text, line in zip(texts, lines, strict=True):
        if text:
            element = text.partition(" (")[0] if text.startswith(IMPOSSIBLE) else "RDKit cannot read the SMILES"
            reasons.setdefault(element, []).append(line)
    return [Problem(reason, action, tuple(of_reason)) for reason, of_reason in sorted(reasons.items())]


def canonical(smiles: str) -> str:
    """The canonical SMILES of a molecule, or of both of a pair, without isotopes and atom map numbers.

    >>> canonical("OC"), canonical("CO"), canonical("[CH3:1][OH:2]"), canonical("OC>O")
    ('CO', 'CO', 'CO', 'CO>O')
    """
    return join_smiles([standard_smiles(parse(part)) for part in split_smiles(smiles)])


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


def censoring_of(molecules: Molecules) -> Tensor:
    """1 where a value is a lower bound of the truth, -1 where it is an upper bound, 0 where it is measured: [R, T]."""
    exact = torch.zeros(molecules.values.shape, dtype=torch.int8)
    return molecules.graphs.graphs.get(CENSORING, exact)


def select_targets(molecules: Molecules, mask: Tensor) -> Molecules:
    """The molecules with the targets in ``mask`` [T] alone."""
    graphs = molecules.graphs
    if CENSORING in graphs.graphs:
        graphs = graphs.with_values(graphs={CENSORING: graphs.graphs[CENSORING][:, mask]})
    return replace(molecules, values=molecules.values[:, mask], graphs=graphs)


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
    restricted = [replace(each, lines=tuple(line for line in each.lines if line in remaining)) for each in impossible]
    others = [problem for problem in problems if problem.action != "kept"]
    return (*others, *(problem for problem in restricted if problem.lines), *remarks(molecules))


def _differ(values: Tensor) -> bool:
    high, low = values.nan_to_num(nan=-math.inf).amax(dim=0), values.nan_to_num(nan=math.inf).amin(dim=0)
    return bool((high > low).any())


def _values(
    rows: Sequence[Row], positions: Sequence[int], targets: Sequence[Target], censored: Censored
) -> tuple[Tensor, Tensor, list[Problem]]:
    """Target values and their censoring, [R, T], and remarks on rows with bounds or values that cannot be parsed."""
    invalid, bounded, values, signs = [], [], [], []
    for row in rows:
        pairs = zip(positions, targets, strict=True)
        texts = [(row.values[index + 1], target.classes) for index, target in pairs]
        parsed = [read_value(text, of_classes) for text, of_classes in texts]
        unread = [value is None and of_classes is None for value, (_, of_classes) in zip(parsed, texts, strict=True)]
        bounds = [read_bound(text) if is_unread else None for is_unread, (text, _) in zip(unread, texts, strict=True)]
        if any(bounds):
            bounded.append(row.line)
        if any(value is None and bound is None for value, bound in zip(parsed, bounds, strict=True)):
            invalid.append(row.line)
        used_bounds = [bound if censored == "keep" else None for bound in bounds]
        values.append([b[0] if b else math.nan if v is None else v for v, b in zip(parsed, used_bounds, strict=True)])
        signs.append([b[1] if b else 0 for b in used_bounds])
    shape = (len(rows), len(targets))
    action = "kept as bounds (--censored drop: as missing)" if censored == "keep" else "treated as missing"
    problems = [
        Problem("censored values such as > 10", action, tuple(bounded)),
        Problem("values that are not numbers, or of neither class", "treated as missing", tuple(invalid)),
    ]
    numbers = torch.tensor(values, dtype=torch.float64).reshape(shape)
    return numbers, torch.tensor(signs, dtype=torch.int8).reshape(shape), problems


def _notes(constant: Sequence[str], unused: Sequence[str]) -> tuple[str, ...]:
    notes = {"constant columns, left out": constant, "columns that are not predicted": unused}
    return tuple(f"{note}: {', '.join(names)}" for note, names in notes.items() if names)
