"""Molecules in training, validation and test: what belongs together stays together."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from dgn.data.datasets.smiles import parse_smiles

SHARES = (0.8, 0.1, 0.1)


def scaffold_split(scaffolds: Sequence[str], shares: Sequence[float] = SHARES) -> Tensor:
    """The largest groups of a scaffold first, into training while they fit, then validation, then test.

    >>> scaffold_split(["a"] * 8 + ["b", "c"]).tolist()
    [0, 0, 0, 0, 0, 0, 0, 0, 1, 2]
    """
    groups = sorted(group(scaffolds).values(), key=lambda rows: (-len(rows), rows[0]))
    return assign_groups(groups, len(scaffolds), shares)


def scaffold(smiles: str) -> str:
    """The rings of a molecule and what joins them (Bemis and Murcko), without stereo; nothing for a chain.

    >>> scaffold("CCc1ccccc1"), scaffold("CCO")
    ('c1ccccc1', '')
    """
    from rdkit.Chem import MolToSmiles
    from rdkit.Chem.Scaffolds import MurckoScaffold

    try:
        found = MurckoScaffold.GetScaffoldForMol(parse_smiles(smiles))  # type: ignore[no-untyped-call]
        return str(MolToSmiles(found, isomericSmiles=False))
    except (ValueError, RuntimeError):  # a molecule whose valences RDKit refuses is a scaffold of its own
        return smiles


def group(keys: Iterable[str]) -> dict[str, list[int]]:
    """The numbers of the rows that share a key, in the order of the rows.

    >>> group(["a", "b", "a"])
    {'a': [0, 2], 'b': [1]}
    """
    found: dict[str, list[int]] = {}
    for number, key in enumerate(keys):
        found.setdefault(key, []).append(number)
    return found


def assign_groups(groups: Sequence[Sequence[int]], total: int, shares: Sequence[float]) -> Tensor:
    """The part of every row, [R] of 0 (training), 1 (validation) and 2 (test), groups in the order given.

    A group goes into training while that holds at most its share of ``total``, then into validation, then test.

    >>> assign_groups([[1, 2], [0]], 3, (0.7, 0.3, 0.0)).tolist()
    [1, 0, 0]
    """
    limits, counts = (shares[0] * total, (shares[0] + shares[1]) * total), [0, 0, 0]
    size = max((number for rows in groups for number in rows), default=-1) + 1
    part = torch.zeros(size, dtype=torch.uint8)
    for rows in groups:
        if counts[0] + len(rows) <= limits[0] + 1e-9:
            place = 0
        else:
            place = 1 if counts[0] + counts[1] + len(rows) <= limits[1] + 1e-9 else 2
        counts[place] += len(rows)
        part[list(rows)] = place
    return part
