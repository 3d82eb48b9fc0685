"""PyG transforms that add numbers about the structure of a graph."""

from collections.abc import Iterable

from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from dgn.encodings import clique_counts, edge_affinities, return_probabilities, ring_counts
from dgn.encodings.cliques import CLIQUES
from dgn.encodings.random_walks import EDGE_STEPS, STEPS, check_steps
from dgn.encodings.rings import SIZES, check_sizes


@functional_transform("add_dgn_return_probabilities")
class AddReturnProbabilities(BaseTransform):
    """Add the probabilities that a random walk is back after 1 to ``steps`` steps: ``random_walk`` [N, steps].

    >>> import torch
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> AddReturnProbabilities(steps=2)(data).random_walk.tolist()
    [[0.0, 0.5], [0.0, 1.0], [0.0, 0.5]]
    """

    def __init__(self, steps: int = STEPS) -> None:
        self.steps = check_steps(steps, STEPS)

    def forward(self, data: Data) -> Data:
        data.random_walk = return_probabilities(data, self.steps)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(steps={self.steps})"


@functional_transform("add_dgn_affinities")
class AddAffinities(BaseTransform):
    """Add how much likelier than by chance a walk of 1 to ``steps`` steps joins the ends of an edge: ``edge_walk``.

    ``edge_walk`` [E, steps]; a network reads it behind the numbers of ``edge_attr``, if there are any.

    >>> import torch
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> AddAffinities(steps=2)(data).edge_walk.tolist()
    [[2.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 0.0]]
    """

    def __init__(self, steps: int = EDGE_STEPS) -> None:
        self.steps = check_steps(steps, EDGE_STEPS)

    def forward(self, data: Data) -> Data:
        data.edge_walk = edge_affinities(data, self.steps)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(steps={self.steps})"


@functional_transform("add_dgn_rings")
class AddRings(BaseTransform):
    """Add the number of chordless rings of each size through nodes and edges: ``rings`` [N, S], ``edge_rings`` [E, S].

    >>> import torch
    >>> data = Data(edge_index=torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), num_nodes=4)
    >>> added = AddRings(sizes=[3])(data)
    >>> added.rings.T.tolist(), added.edge_rings.T.tolist()
    ([[1, 1, 1, 0]], [[1, 1, 1, 0]])
    """

    def __init__(self, sizes: Iterable[int] = SIZES) -> None:
        self.sizes = check_sizes(sizes)

    def forward(self, data: Data) -> Data:
        data.rings, data.edge_rings = ring_counts(data, self.sizes)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sizes={list(self.sizes)})"


@functional_transform("add_dgn_cliques")
class AddCliques(BaseTransform):
    """Add the number of cliques of each size with a node or an edge: ``cliques`` [N, S], ``edge_cliques`` [E, S].

    A network reads those of nodes, as log(1 + count).

    >>> import torch
    >>> data = Data(edge_index=torch.tensor([[0, 1, 2, 2], [1, 2, 0, 3]]), num_nodes=4)
    >>> added = AddCliques(sizes=[3])(data)
    >>> added.cliques.T.tolist(), added.edge_cliques.T.tolist()
    ([[1, 1, 1, 0]], [[1, 1, 1, 0]])
    """

    def __init__(self, sizes: Iterable[int] = CLIQUES) -> None:
        self.sizes = check_sizes(sizes)

    def forward(self, data: Data) -> Data:
        data.cliques, data.edge_cliques = clique_counts(data, self.sizes)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(sizes={list(self.sizes)})"
