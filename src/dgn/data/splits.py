"""Train, validation and test splits of molecules in which no group is divided."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from dgn.data.datasets.smiles import parse_smiles

SHARES = (0.8, 0.1, 0.1)


def scaffold_split(scaffolds: Sequence[str], shares: Sequence[float] = SHARES, seed: int | None = None) -> Tensor:
    """A scaffold split, [R] of 0 (training), 1 (validation) and 2 (test), largest scaffold groups first.

    Groups of equal size are in random order, by ``seed``; with None in the order of first rows, as in MoleculeNet.

    Law: with a seed, the split of a scaffold does not depend on the order of the rows.

    >>> scaffold_split(["a"] * 8 + ["b", "c"]).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 2]
    """
    groups = list(group(scaffolds).values()) if seed is None else shuffled_groups(scaffolds, seed)
    return assign_groups(sorted(groups, key=lambda rows: -len(rows)), len(scaffolds), shares)


def shuffled_groups(keys: Sequence[str], seed: int) -> list[list[int]]:
    """The rows of each key; the order of the keys is random and does not depend on that of the rows.

    >>> [[keys[row] for row, *_ in shuffled_groups(keys, 1)] for keys in ("abc", "cab", "aab")]
    [['b', 'c', 'a'], ['b', 'c', 'a'], ['b', 'a']]
    """
    groups = sorted(group(keys).items())
    order = torch.randperm(len(groups), generator=torch.Generator().manual_seed(seed)).tolist()
    return [groups[index][1] for index in order]


def scaffold(smiles: str) -> str:
    """The Bemis-Murcko scaffold as SMILES without stereochemistry; empty for acyclic molecules.

    >>> scaffold("CCc1ccccc1"), scaffold("CCO")
    ('c1ccccc1', '')
    """
    from rdkit.Chem import MolToSmiles
    from rdkit.Chem.Scaffolds import MurckoScaffold

    try:
        core = MurckoScaffold.GetScaffoldForMol(parse_smiles(smiles))  # type: ignore[no-untyped-call]
        return str(MolToSmiles(core, isomericSmiles=False))
    except (ValueError, RuntimeError):  # RDKit rejects its valences: the molecule is its own scaffold
        return smiles


def group(keys: Iterable[str]) -> dict[str, list[int]]:
    """Row indices by key, in ascending order.

    >>> group(["a", "b", "a"])
    {'a': [0, 2], 'b': [1]}
    """
    rows: dict[str, list[int]] = {}
    for row, key in enumerate(keys):
        rows.setdefault(key, []).append(row)
    return rows


def assign_groups(groups: Sequence[Sequence[int]], total: int, shares: Sequence[float]) -> Tensor:
    """The split of every row, [R] of 0 (training), 1 (validation) and 2 (test); no group is divided.

    In order, each group goes to the training split if that stays within its share of ``total``, else to the
    validation split if the two together stay within theirs, else to the test split.

    >>> assign_groups([[1, 2], [0]], 3, (0.7, 0.3, 0.0)).tolist()
    [1, 0, 0]
    """
    limits, counts = (shares[0] * total, (shares[0] + shares[1]) * total), [0, 0, 0]
    num_rows = max((row for rows in groups for row in rows), default=-1) + 1
    split = torch.zeros(num_rows, dtype=torch.uint8)
    for rows in groups:
        if counts[0] + len(rows) <= limits[0] + 1e-9:
            index = 0
        else:
            index = 1 if counts[0] + counts[1] + len(rows) <= limits[1] + 1e-9 else 2
        counts[index] += len(rows)
        split[list(rows)] = index
    return split
