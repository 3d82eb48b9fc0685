"""What is drawn: a graph with a place for every node."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree
from torch import Tensor

from dgn.spectral import Directions, directions
from dgn.spectral.laplacians import Normalization

CLOSEST = 0.65  # distance of near nodes, in units of the drawing: a node is a little smaller


@dataclass(frozen=True, eq=False)
class Scene:
    """A graph, where its nodes lie, and what is written on them.

    ``signals`` are numbers of each node by name, to be smoothed and differentiated. ``order`` is the kind of line of
    each edge: 1, 2 or 3 for bonds, 1.5 for aromatic ones.

    Shapes:
        ``edge_index`` [2, E], ``position`` [N, 2], ``labels`` N, ``order`` and ``edge_weight`` [E], each signal [N].

    >>> pair = Scene("pair", torch.tensor([[0, 1], [1, 0]]), np.array([[0.0, 0.0], [1.0, 0.0]]), ("a", "b"))
    >>> pair.num_nodes, pair.signals["degree"].tolist(), pair.pairs().tolist()
    (2, [1.0, 1.0], [[0, 1]])
    """

    name: str
    edge_index: Tensor
    position: NDArray[np.float64]
    labels: tuple[str, ...]
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    order: Tensor | None = None
    edge_weight: Tensor | None = None
    atoms: bool = False

    def __post_init__(self) -> None:
        n = len(self.labels)
        if n == 0:
            raise ValueError(f"{self.name or 'graph'}: expected at least one node to draw, got none; check the input")
        if self.position.shape != (n, 2) or not np.isfinite(self.position).all():
            raise ValueError(
                f"position: expected finite numbers of shape [{n}, 2], got shape {list(self.position.shape)}; give x "
                "and y of every node, or none at all"
            )
        degree = torch.bincount(self.edge_index[1], minlength=n).double()
        object.__setattr__(self, "signals", {"degree": degree, **self.signals})

    @property
    def num_nodes(self) -> int:
        return len(self.labels)

    @property
    def node_word(self) -> str:
        return "atom" if self.atoms else "node"

    def places(self) -> NDArray[np.float64]:
        """Where the nodes are drawn: in units of a median edge, or shorter where they would cover each other. [N, 2]"""
        lengths = np.linalg.norm(np.diff(self.position[self.pairs().numpy()], axis=1)[:, 0], axis=1)
        spots = np.unique(self.position, axis=0)  # nodes that lie on each other say nothing about the scale
        near = KDTree(spots).query(spots, k=[2])[0][:, 0] if len(spots) > 1 else np.ones(1)
        units = [np.median(lengths[lengths > 0])] if (lengths > 0).any() else []
        return self.position / float(min([*units, np.quantile(near, 0.1) / CLOSEST]))

    def pairs(self) -> Tensor:
        """The nodes that are joined, each pair once, smaller number first, without self-loops. [P, 2]"""
        ends = torch.stack([self.edge_index.amin(dim=0), self.edge_index.amax(dim=0)], dim=1)
        pairs: Tensor = torch.unique(ends[ends[:, 0] < ends[:, 1]], dim=0)
        return pairs

    def line_orders(self) -> list[float]:
        """The kind of line of each of :meth:`pairs`."""
        if self.order is None:
            return [1.0] * len(self.pairs())
        kinds = zip(self.edge_index.T.tolist(), self.order.tolist(), strict=True)
        known = {tuple(sorted(ends)): kind for ends, kind in kinds}
        return [known[tuple(ends)] for ends in self.pairs().tolist()]

    def directions(self, k: int, normalization: Normalization = None) -> Directions:
        """The first k directions; those that no component of the graph has are left out, but the first stays."""
        found = directions(self.edge_index, self.num_nodes, min(k, max(self.num_nodes - 1, 1)), normalization,
                           self.edge_weight)  # fmt: skip
        exist = max(int(found.eigenvalues.isfinite().any(dim=0).sum()), 1)
        return found if exist == found.potential.size(1) else self.directions(exist, normalization)
