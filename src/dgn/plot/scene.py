"""A graph to draw: edges, node positions, labels and signals."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial import KDTree
from torch import Tensor

from dgn.spectral import Directions, directions
from dgn.spectral.laplacians import Normalization

CLOSEST = 0.65  # smallest distance of nodes in the drawing, a little more than a node's diameter


@dataclass(frozen=True, eq=False)
class Scene:
    """A graph with node positions and labels.

    ``signals`` are node values by name, to be smoothed and differentiated. ``order`` is the bond order of each edge: 1,
    2 or 3, and 1.5 for aromatic bonds.

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
                "and y of every node, or of none"
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
        """Positions [N, 2] in units of the median edge length, or larger if nodes would overlap."""
        lengths = np.linalg.norm(np.diff(self.position[self.pairs().numpy()], axis=1)[:, 0], axis=1)
        spots = np.unique(self.position, axis=0)  # coinciding nodes do not count for the scale
        near = KDTree(spots).query(spots, k=[2])[0][:, 0] if len(spots) > 1 else np.ones(1)
        units = [np.median(lengths[lengths > 0])] if (lengths > 0).any() else []
        return self.position / float(min([*units, np.quantile(near, 0.1) / CLOSEST]))

    def pairs(self) -> Tensor:
        """The undirected edges [P, 2], smaller index first, without self-loops."""
        ends = torch.stack([self.edge_index.amin(dim=0), self.edge_index.amax(dim=0)], dim=1)
        pairs: Tensor = torch.unique(ends[ends[:, 0] < ends[:, 1]], dim=0)
        return pairs

    def line_orders(self) -> list[float]:
        """The bond order of each of :meth:`pairs`."""
        if self.order is None:
            return [1.0] * len(self.pairs())
        edges = zip(self.edge_index.T.tolist(), self.order.tolist(), strict=True)
        orders = {tuple(sorted(ends)): order for ends, order in edges}
        return [orders[tuple(ends)] for ends in self.pairs().tolist()]

    def directions(self, k: int, normalization: Normalization = None) -> Directions:
        """The first k directions, without those that no component has; at least one."""
        count = min(k, max(self.num_nodes - 1, 1))
        vectors = directions(self.edge_index, self.num_nodes, count, normalization, self.edge_weight)
        exist = max(int(vectors.eigenvalues.isfinite().any(dim=0).sum()), 1)
        return vectors if exist == vectors.potential.size(1) else self.directions(exist, normalization)
