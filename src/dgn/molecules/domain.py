"""The applicability domain: what the training molecules had, and how far other molecules are from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.data.benchmark import ATOMS
from dgn.data.packed import PackedGraphs
from dgn.graph.checks import check_package

MOST = 10_000  # training molecules that are stored; of larger tables, a random sample
WIDTH = 2048  # columns of a fingerprint
RADIUS = 2  # bonds around an atom in its largest neighbourhood
ELEMENT, CHARGE, NEUTRAL = 0, 3, 5  # columns of the atom features, and the category of charge 0
INVARIANTS = (0, 2, 3, 4, 7, 8)  # element, neighbours, charge, hydrogens, aromatic, in a ring
QUANTILES = (0.0, 0.05, 0.5, 0.95, 1.0)  # of the numbers of atoms
PREFIX = "domain_"  # of its tensors in the folder of a model


class Comparison(NamedTuple):
    """How molecules relate to the training molecules; ``novelty`` is 0 for a training molecule of a usual size.

    Shapes:
        ``similarity``, ``novelty`` [G]; ``nearest``, the most similar training molecule, and ``outside``, what
        training did not have ("": nothing), have G texts.
    """

    similarity: NDArray[np.float64]  # arrays, as workers return them
    novelty: NDArray[np.float64]
    nearest: list[str]
    outside: list[str]


@dataclass(frozen=True, eq=False)
class Domain:
    """Fingerprints and SMILES of R training molecules, and the elements, charges, sizes and neighbourhoods of all.

    Shapes:
        ``pointer`` [R + 1] int32 into ``feature`` int16 and ``count`` uint8, the non-zeros of a fingerprint; ``smiles``
        the bytes of R lines; ``neighbourhoods`` int64, sorted hashes; ``elements`` and ``charges`` categories of the
        atom features; ``sizes`` [5] float64, numbers of atoms at the ``QUANTILES``.
    """

    pointer: Tensor
    feature: Tensor
    count: Tensor
    smiles: Tensor
    neighbourhoods: Tensor
    elements: Tensor
    charges: Tensor
    sizes: Tensor

    @classmethod
    def of(cls, graphs: PackedGraphs, smiles: Sequence[str], seed: int = 0) -> "Domain":
        """The domain of training molecules; ``graphs`` have OGB's features."""
        hashes = environments(graphs)
        order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(seed))[:MOST].sort().values
        chosen = fingerprints(graphs.select(order), environments(graphs.select(order)))
        x = graphs.nodes["x"].long()
        counts = graphs.node_pointer.diff().double()
        return cls(
            pointer=torch.from_numpy(chosen.indptr.astype(np.int32)),
            feature=torch.from_numpy(chosen.indices.astype(np.int16)),
            count=torch.from_numpy(chosen.data),
            smiles=torch.tensor(list("\n".join(smiles[row] for row in order.tolist()).encode()), dtype=torch.uint8),
            neighbourhoods=torch.unique(hashes[1]),
            elements=torch.unique(x[:, ELEMENT]),
            charges=torch.unique(x[:, CHARGE]),
            sizes=counts.quantile(torch.tensor(QUANTILES, dtype=torch.float64)),
        )

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> "Domain | None":
        """The domain among the tensors of a model, if it has one."""
        parts = {name.removeprefix(PREFIX): value for name, value in tensors.items() if name.startswith(PREFIX)}
        return cls(**parts) if parts else None

    def tensors(self) -> dict[str, Tensor]:
        """What :meth:`read` reads."""
        return {f"{PREFIX}{name}": getattr(self, name) for name in self.__dataclass_fields__}

    @cached_property
    def _texts(self) -> list[str]:
        return bytes(self.smiles.tolist()).decode().split("\n")

    def sample(self, most: int) -> list[str]:
        """SMILES of up to ``most`` training molecules, evenly chosen."""
        return self._texts[:: max(1, len(self._texts) // most)][:most]

    @cached_property
    def _dense(self) -> NDArray[np.uint8]:
        """The fingerprints, one column each: [WIDTH, R], so that a feature of all molecules is contiguous."""
        dense = np.zeros((WIDTH, len(self.pointer) - 1), dtype=np.uint8)
        rows = np.repeat(np.arange(dense.shape[1]), self.pointer.diff().numpy())
        dense[self.feature.numpy().astype(np.int64), rows] = self.count.numpy()
        return dense

    def compare(self, graphs: PackedGraphs) -> Comparison:
        """The molecules beside those of training; ``graphs`` have the features of the training graphs."""
        hashes, counts = environments(graphs), graphs.node_pointer.diff()
        prints, totals = fingerprints(graphs, hashes), self._dense.sum(axis=0, dtype=np.int64)
        best, nearest = np.zeros(len(graphs)), np.zeros(len(graphs), dtype=np.int64)
        for row in range(len(graphs)):
            span = slice(prints.indptr[row], prints.indptr[row + 1])
            shared = np.minimum(self._dense[prints.indices[span]], prints.data[span, None]).sum(axis=0, dtype=np.int64)
            tanimoto = shared / (totals + prints.data[span].sum(dtype=np.int64) - shared)
            nearest[row] = tanimoto.argmax()
            best[row] = tanimoto[nearest[row]]
        unknown = ~torch.isin(hashes[1], self.neighbourhoods)
        fraction = _sum_per_graph(unknown.double(), graphs) / counts.clamp(min=1)
        _, low, middle, high, _ = self.sizes.tolist()
        above, below = (counts - high) / (high - middle + 1), (low - counts) / (middle - low + 1)
        novelty = 1 - torch.from_numpy(best) + fraction + torch.maximum(above, below).clamp(min=0)
        outside = self._outside(graphs, _sum_per_graph(unknown.long(), graphs))
        return Comparison(best, novelty.numpy(), [self._texts[index] for index in nearest.tolist()], outside)

    def _outside(self, graphs: PackedGraphs, unknown: Tensor) -> list[str]:
        """What training did not have, as text."""
        x, pointer, (least, *_, most) = graphs.nodes["x"].long(), graphs.node_pointer.tolist(), self.sizes.tolist()
        strange = ~torch.isin(x[:, ELEMENT], self.elements) | ~torch.isin(x[:, CHARGE], self.charges)
        has_strange = (_sum_per_graph(strange.long(), graphs) > 0).tolist()
        texts = []
        for row, (start, end, count) in enumerate(zip(pointer[:-1], pointer[1:], unknown.tolist(), strict=True)):
            parts = self._strangers(x[start:end]) if has_strange[row] else []
            if not least <= end - start <= most:
                parts.append(f"{end - start} atoms (training {least:.0f} to {most:.0f})")
            if count:
                parts.append(f"neighbourhoods of {count} of {end - start} atoms")
            texts.append("; ".join(parts))
        return texts

    def _strangers(self, atoms: Tensor) -> list[str]:
        check_package("element symbols", "rdkit")
        from rdkit import Chem

        symbol: Any = Chem.GetPeriodicTable().GetElementSymbol
        elements = sorted(set(atoms[:, ELEMENT].tolist()) - set(self.elements.tolist()))
        charges = sorted(set(atoms[:, CHARGE].tolist()) - set(self.charges.tolist()))
        names = [symbol(index + 1) if index < 118 else "*" for index in elements]
        shown = [f"{value - NEUTRAL:+d}" if value <= 2 * NEUTRAL else "beyond ±5" for value in charges]
        return [f"element {name}" for name in names] + [f"charge {charge}" for charge in shown]


def environments(graphs: PackedGraphs) -> list[Tensor]:
    r"""Hashes of the neighbourhoods of every atom, by radius 0, 1, ...: [N] int64 each.

    .. math:: h_i^{r+1} = m(h_i^r + \sum_j m(h_j^r + m(b_{ij})))

    :math:`m` scrambles 64 bits, :math:`b_{ij}` is the type of a bond. The sum over the neighbours j wraps around, and
    does not depend on their order.

    Law: relabelling atoms relabels the hashes.
    """
    x, bonds = graphs.nodes["x"].long(), graphs.edges["edge_attr"][:, 0].long()
    source, target = graphs.graph.edge_index.long()
    current = torch.zeros(len(x), dtype=torch.long)
    for column in (*INVARIANTS, *range(len(ATOMS), x.size(1))):  # the last tells the molecules of a pair apart
        current = _scramble(current + x[:, column] + 1)
    hashes = [current]
    for _ in range(RADIUS):
        messages = _scramble(current[source] + _scramble(bonds + 1))
        current = _scramble(current + torch.zeros_like(current).index_add_(0, target, messages))
        hashes.append(current)
    return hashes


def fingerprints(graphs: PackedGraphs, hashes: Sequence[Tensor]) -> Any:
    """How often each neighbourhood occurs in a molecule, up to 255: a SciPy CSR matrix [G, WIDTH] of uint8."""
    from scipy.sparse import coo_array

    graph = torch.arange(len(graphs)).repeat_interleave(graphs.node_pointer.diff()).repeat(len(hashes)).numpy()
    columns = (torch.cat(list(hashes)) % WIDTH).numpy()
    ones = np.ones(len(columns), dtype=np.int32)
    matrix = coo_array((ones, (graph, columns)), shape=(len(graphs), WIDTH)).tocsr()
    matrix.sum_duplicates()
    matrix.data = matrix.data.clip(max=255).astype(np.uint8)
    return matrix


def _scramble(values: Tensor) -> Tensor:
    """The finalizer of splitmix64, with arithmetic shifts: 64 bits to 64 bits."""
    values = (values ^ (values >> 30)) * -0x40A7B892E31B1A47
    values = (values ^ (values >> 27)) * -0x6B2FB644ECCEEE15
    return values ^ (values >> 31)


def _sum_per_graph(values: Tensor, graphs: PackedGraphs) -> Tensor:
    graph = torch.arange(len(graphs)).repeat_interleave(graphs.node_pointer.diff())
    return torch.zeros(len(graphs), dtype=values.dtype).index_add_(0, graph, values)
