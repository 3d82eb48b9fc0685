"""PyG transforms that add structural encodings to a graph."""

from collections.abc import Iterable

from torch_geometric.data import Data
from torch_geometric.data.datapipes import functional_transform
from torch_geometric.transforms import BaseTransform

from dgn.encodings import return_probabilities, ring_counts
from dgn.encodings.random_walks import STEPS, check_steps
from dgn.encodings.rings import SIZES, check_sizes


@functional_transform("add_dgn_return_probabilities")
class AddRandomWalkPE(BaseTransform):
    """Add the return probabilities of a random walk after 1 to ``steps`` steps: ``random_walk`` [N, steps].

    >>> import torch
    >>> data = Data(edge_index=torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), num_nodes=3)
    >>> AddRandomWalkPE(steps=2)(data).random_walk.tolist()
    [[0.0, 0.5], [0.0, 1.0], [0.0, 0.5]]
    """

    def __init__(self, steps: int = STEPS) -> None:
        self.steps = check_steps(steps)

    def forward(self, data: Data) -> Data:
        data.random_walk = return_probabilities(data, self.steps)
        return data

    def __repr__(self) -> str:
        return f"{type(self).__name__}(steps={self.steps})"


@functional_transform("add_dgn_rings")
class AddRings(BaseTransform):
    """Add the counts of chordless rings of each size through nodes and edges: ``rings`` [N, S], ``edge_rings`` [E, S].

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
