"""Structural encodings of a dataset: their layout, scale and edge types; the scale of features of whole graphs."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn.encodings.edge_types import EdgeTypes

LEAST_DEVIATION = 0.05  # features that vary less are not scaled up, unless all vary less
ROUNDING = 1e-3  # lower bound of the deviation in any case


@dataclass(frozen=True, eq=False)
class Structure:
    r"""The structural encodings of nodes and edges, and their standardisation.

    Nodes have ``random_walk`` return probabilities, then the counts of ``rings`` of each size. A network reads
    :math:`s_c v_{ic} + o_c`: return probabilities are centred and divided by their standard deviation over the training
    nodes, or by 0.05 if that is larger; where all vary less, as in dense graphs, by the largest deviation. Ring counts
    are not scaled. ``edge_types`` is ``None`` where edge features are continuous.

    Shapes:
        ``scale`` and ``offset`` [random_walk + len(rings)].

    >>> structure = Structure.find(torch.tensor([[0.5, 0.0], [0.7, 2.0]]), random_walk=1, rings=(6,))
    >>> (torch.tensor([[0.7, 2.0]]) * structure.scale + structure.offset).tolist()
    [[1.0, 2.0]]
    """

    random_walk: int
    rings: tuple[int, ...]
    scale: Tensor
    offset: Tensor
    edge_types: EdgeTypes | None = None

    @classmethod
    def find(
        cls, values: Tensor, random_walk: int, rings: Sequence[int] = (), edge_types: EdgeTypes | None = None
    ) -> "Structure":
        """The structure of a dataset, from the encodings of its training nodes, [N, random_walk + len(rings)]."""
        scale = values.new_ones(values.size(1), dtype=torch.float64)
        offset = torch.zeros_like(scale)
        if random_walk and len(values):
            deviation, mean = torch.std_mean(values[:, :random_walk].double(), dim=0, correction=0)
            least = deviation.max().clamp(ROUNDING, LEAST_DEVIATION)
            scale[:random_walk] = 1 / deviation.maximum(least)
            offset[:random_walk] = -mean * scale[:random_walk]
        return cls(random_walk, tuple(rings), scale.float(), offset.float(), edge_types)

    @classmethod
    def blank(cls, random_walk: int, rings: Sequence[int], edge_sizes: Sequence[int] | None) -> "Structure":
        """A placeholder of the same shapes before the dataset is loaded, with scale 1 and one edge type.

        ``edge_sizes`` are the numbers of edge categories, or ``None`` where edge features are continuous.
        """
        width = random_walk + len(rings)
        edge_types = None
        if rings and edge_sizes is not None:
            edge_types = EdgeTypes(torch.zeros(1, len(edge_sizes) + len(rings), dtype=torch.long), tuple(edge_sizes))
        return cls(random_walk, tuple(rings), torch.ones(width), torch.zeros(width), edge_types)


@dataclass(frozen=True, eq=False)
class Standardization:
    """Scale and offset that bring features of graphs to mean 0 and standard deviation 1; constant ones to 0.

    Shapes:
        ``scale`` and ``offset`` [F].

    >>> features = Standardization.find(torch.tensor([[1.0, 5.0], [3.0, 5.0], [torch.nan, 5.0]]))
    >>> (torch.tensor([[3.0, 5.0]]) * features.scale + features.offset).tolist()
    [[1.0, 0.0]]
    """

    scale: Tensor
    offset: Tensor

    @classmethod
    def find(cls, values: Tensor) -> "Standardization":
        """That of the features of the training graphs, [G, F], NaN where missing."""
        values = values.double()
        mean = values.nanmean(dim=0).nan_to_num()
        deviation = (values - mean).square().nanmean(dim=0).nan_to_num().sqrt()
        # A constant may have a deviation by rounding: its scale would be that of noise.
        scale = torch.where(deviation > ROUNDING**2 * mean.abs(), 1 / deviation, 1.0)
        return cls(scale.float(), (-mean * scale).float())
