"""From the rows of a table to molecules with targets, and a word on every row that is not plain."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from dgn.data.packed import PackedGraphs
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
from dgn.molecules.featurize import featurize, parse
from dgn.molecules.table import Row, Table, check_text

SAMPLE = 200  # values of each column that are looked at to find those to use
SHOWN = 8  # lines that a message names
FEWEST = 10  # molecules that can be split and learned from


@dataclass(frozen=True)
class Problem:
    """Something about some rows, what is done with them, and where they are.

    >>> print(Problem("RDKit cannot read the SMILES", "left out", (4, 9)))
    2 rows: RDKit cannot read the SMILES; left out (lines 4, 9)
    """

    what: str
    done: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        shown = ", ".join(map(str, self.lines[:SHOWN]))
        more = f" and {len(self.lines) - SHOWN} more" if len(self.lines) > SHOWN else ""
        one = len(self.lines) == 1
        rows, lines = ("1 row", "line") if one else (f"{len(self.lines)} rows", "lines")
        return f"{rows}: {self.what}; {self.done} ({lines} {shown}{more})"


@dataclass(frozen=True)
class Molecules:
    """Molecules that can be learned from. ``keys`` are canonical SMILES, ``lines`` say where they were.

    Shapes:
        ``values`` [R, T] float64, NaN where missing.
    """

    smiles: tuple[str, ...]
    lines: tuple[int, ...]
    values: Tensor
    keys: tuple[str, ...]
    graphs: PackedGraphs
    part: tuple[str, ...] | None = None  # of a given split


@dataclass(frozen=True)
class TableData:
    """What was read from a table."""

    smiles: str
    task: Task
    targets: tuple[Target, ...]
    rows: int
    molecules: Molecules
    problems: tuple[Problem, ...] = field(default_factory=tuple)
    notes: tuple[str, ...] = ()


def read_table(
    table: Table,
    smiles: str | None = None,
    targets: Sequence[str] = (),
    task: str | None = None,
    split: str | None = None,
) -> TableData:
    """Read the molecules and targets of a table; ``split`` names a column to keep beside them.

    Columns that are not named are found, the task is guessed. No row is fatal and none is lost without a word.
    """
    sample = _sample(table)
    if smiles:
        check_smiles(table.columns[table.place(smiles)], sample)
    smiles = smiles or find_smiles(table.columns, sample)
    names = [table.columns[table.place(name)] for name in targets] or find_targets(table.columns, sample, smiles)
    kept = [smiles, *names, *([split] if split else [])]
    if len(set(kept)) < len(kept):
        twice = next(name for name in kept if kept.count(name) > 1)
        raise ValueError(
            f"columns: expected different ones for SMILES, targets and split, got {twice!r} twice; name another with "
            "--smiles, --target or --split"
        )
    places = [table.place(name) for name in kept]
    rows = [Row(row.line, [row.values[place] for place in places], row.problem) for row in table.rows()]
    what = "not as many values as columns, a quote that is not closed, or a value too long"
    ragged = Problem(what, "left out", tuple(row.line for row in rows if row.problem))
    whole = [row for row in rows if not row.problem]
    columns = {name: [row.values[number + 1] for row in whole] for number, name in enumerate(names)}
    varied = {name: values for name, values in columns.items() if not is_constant(values)}
    left = [] if targets or not varied else [name for name in names if name not in varied]
    kind, found = read_targets(varied if left else columns, task)
    check_text(table.path, [*table.columns, *(text for each in found for text in each.classes or ())])
    places = [number for number, name in enumerate(names) if name not in left]
    values, odd = _values(whole, places, found)
    molecules, problems = read_molecules(
        [row.values[0] for row in whole], values, [row.line for row in whole],
        [row.values[-1] for row in whole] if split else None,
    )  # fmt: skip
    told = [problem for problem in (ragged, odd, *problems) if problem.lines]
    unused = [] if targets else [name for name in candidates(table.columns, smiles) if name not in kept]
    notes = _notes(left, unused)
    return TableData(smiles, kind, tuple(found), len(rows), molecules, tuple(told), notes)


def read_molecules(
    smiles: Sequence[str], values: Tensor, lines: Sequence[int], part: Sequence[str] | None = None
) -> tuple[Molecules, list[Problem]]:
    """Molecules that can be learned from, and the others by line.

    Without a readable SMILES or any target a row is left out. Molecules that stand more than once, salts (several
    parts) and single atoms are kept as they are.
    """
    graphs, problems = featurize(smiles)
    readable = [number for number, problem in enumerate(problems) if not problem]
    labelled = ~values[torch.tensor(readable, dtype=torch.long)].isnan().all(dim=1)
    used = [number for number, known in zip(readable, labelled.tolist(), strict=True) if known]
    chosen = torch.tensor(used, dtype=torch.long)
    if len(used) < FEWEST:
        raise ValueError(
            f"table: expected at least {FEWEST} molecules with targets, got {len(used)} in {len(smiles)} rows, of "
            f"which {len(readable)} have SMILES that RDKit can read; give more rows, or other columns"
        )
    molecules = Molecules(
        tuple(smiles[number].strip() for number in used),
        tuple(lines[number] for number in used),
        values[chosen],
        tuple(canonical(smiles[number]) for number in used),
        graphs.select(labelled.nonzero()[:, 0]),
        None if part is None else tuple(part[number] for number in used),
    )
    unreadable = [lines[number] for number, problem in enumerate(problems) if problem]
    without = [lines[number] for number, known in zip(readable, labelled.tolist(), strict=True) if not known]
    told = [
        Problem("RDKit cannot read the SMILES", "left out", tuple(unreadable)),
        Problem("no value to learn from", "left out", tuple(without)),
    ]
    return molecules, [*(problem for problem in told if problem.lines), *remarkable(molecules)]


def canonical(smiles: str) -> str:
    """The SMILES that all spellings of a molecule share, also those with numbers of atoms.

    >>> canonical("OC"), canonical("CO"), canonical("[CH3:1][OH:2]")
    ('CO', 'CO', 'CO')
    """
    from rdkit import Chem

    molecule = parse(smiles)
    for atom in molecule.GetAtoms():
        atom.SetAtomMapNum(0)
    return str(Chem.MolToSmiles(molecule))


def take(molecules: Molecules, numbers: Tensor) -> Molecules:
    """Some of the molecules, in the order given."""
    chosen = numbers.tolist()
    return replace(
        molecules,
        smiles=tuple(molecules.smiles[number] for number in chosen),
        lines=tuple(molecules.lines[number] for number in chosen),
        values=molecules.values[numbers],
        keys=tuple(molecules.keys[number] for number in chosen),
        graphs=molecules.graphs.select(numbers),
        part=None if molecules.part is None else tuple(molecules.part[number] for number in chosen),
    )


def remarkable(molecules: Molecules) -> list[Problem]:
    """What is said of rows that are kept; nothing of what there is none of."""
    same = [numbers for numbers in group(molecules.keys).values() if len(numbers) > 1]
    atoms = molecules.graphs.node_pointer.diff().tolist()
    copies = [(n, differs) for numbers in same for differs in [_differ(molecules.values[numbers])] for n in numbers]
    kinds = {
        "molecules that stand more than once with different values": [n for n, differs in copies if differs],
        "molecules that stand more than once with the same values": [n for n, differs in copies if not differs],
        "salts and mixtures, of several parts": [n for n, key in enumerate(molecules.keys) if "." in key],
        "some of the values missing": molecules.values.isnan().any(dim=1).nonzero()[:, 0].tolist(),
        "single atoms": [number for number, count in enumerate(atoms) if count == 1],
    }
    said = {what: tuple(sorted(molecules.lines[n] for n in rows)) for what, rows in kinds.items()}
    return [Problem(what, "kept", lines) for what, lines in said.items() if lines]


def _differ(values: Tensor) -> bool:
    high, low = values.nan_to_num(nan=-math.inf).amax(dim=0), values.nan_to_num(nan=math.inf).amin(dim=0)
    return bool((high > low).any())


def _values(rows: Sequence[Row], places: Sequence[int], targets: Sequence[Target]) -> tuple[Tensor, Problem]:
    """Targets as numbers [R, T], and the lines whose values cannot be understood."""
    odd, values = [], []
    for row in rows:
        pairs = zip(places, targets, strict=True)
        read = [read_value(row.values[place + 1], target.classes) for place, target in pairs]
        if None in read:
            odd.append(row.line)
        values.append([math.nan if value is None else value for value in read])
    told = Problem("values that are no numbers, or of no class", "taken as missing", tuple(odd))
    return torch.tensor(values, dtype=torch.float64).reshape(len(rows), len(targets)), told


def _notes(constant: Sequence[str], unused: Sequence[str]) -> tuple[str, ...]:
    said = {"columns with one value only, left out": constant, "columns that are not predicted": unused}
    return tuple(f"{what}: {', '.join(names)}" for what, names in said.items() if names)


def _sample(table: Table) -> dict[str, list[str]]:
    """The first values of each column that are not missing: a column may begin late."""
    sample: dict[str, list[str]] = {name: [] for name in table.columns}
    for row in table.rows():
        wanted = [
            (name, value) for name, value in zip(table.columns, row.values, strict=True) if len(sample[name]) < SAMPLE
        ]
        if not wanted:
            break
        for name, value in wanted:
            if not is_missing(value):
                sample[name].append(value)
    return sample
