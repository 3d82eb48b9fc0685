"""Which columns of a table are read: those that are named, and detected ones."""

from collections.abc import Sequence
from typing import NamedTuple

from dgn.graph.checks import check_option
from dgn.molecules.columns import check_smiles, find_smiles, find_targets, is_missing
from dgn.molecules.table import Table

SAMPLE = 200  # values of each column used to detect SMILES and targets


class UsedColumns(NamedTuple):
    """The names of the columns that are read; ``partner`` has second SMILES, ``others`` are all that may be targets."""

    smiles: str
    partner: str | None
    targets: list[str]
    features: tuple[str, ...]
    weights: str | None
    split: str | None
    others: list[str]

    @property
    def names(self) -> list[str]:
        """All of them but the second SMILES, in the order in which rows are read."""
        last = [name for name in (self.weights, self.split) if name]
        return [self.smiles, *self.targets, *self.features, *last]


def choose_columns(
    table: Table,
    smiles: str | None,
    targets: Sequence[str],
    split: str | None,
    features: Sequence[str],
    weights: str | None,
    partner: str | None = None,
) -> UsedColumns:
    """The columns that are named, and detected ones; a column has one use."""
    sample = _sample(table)
    for name in filter(None, (smiles, partner)):
        check_smiles(table.columns[table.position(name)], sample)
    smiles = smiles or find_smiles(table.columns, sample)
    features = tuple(table.columns[table.position(name)] for name in features)
    weights = weights and table.columns[table.position(weights)]
    others = [name for name in table.columns if name not in (*features, weights, partner)]
    for name in targets:
        check_option("--target", name, tuple(other for other in others if other != smiles))
    names = list(targets) or find_targets(others, sample, smiles)
    used = UsedColumns(smiles, partner, names, features, weights, split, others)
    every = [*used.names, *filter(None, [partner])]
    twice = [name for name in every if every.count(name) > 1]
    if twice:
        raise ValueError(
            f"columns: expected distinct ones for SMILES, targets, features, weights and split, got {twice[0]!r} "
            "twice; choose another with --smiles, --target, --features, --weights or --split"
        )
    return used


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
