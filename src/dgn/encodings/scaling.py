"""What a network must know of the structural numbers of its graphs."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn.encodings.edge_types import EdgeTypes

LEAST_DEVIATION = 0.05  # numbers that vary less are not blown up, unless all vary less
ROUNDING = 1e-3  # nor is what hardly varies at all


@dataclass(frozen=True, eq=False)
class Structure:
    r"""Which structural numbers nodes and edges have, and how they are brought to one scale.

    Nodes have ``random_walk`` return probabilities, then the counts of ``rings`` of each size. A network reads
    :math:`s_c v_{ic} + o_c`: return probabilities are centred and divided by their deviation over the training nodes,
    or by 0.05 if that is more; where all vary less, as in dense graphs, by the largest deviation. Counts of rings stay
    as they are. Edges are of few ``kinds``; ``None`` where they have other features.

    Shapes:
        ``scale`` and ``offset`` [random_walk + len(rings)].

    >>> found = Structure.find(torch.tensor([[0.5, 0.0], [0.7, 2.0]]), random_walk=1, rings=(6,))
    >>> (torch.tensor([[0.7, 2.0]]) * found.scale + found.offset).tolist()
    [[1.0, 2.0]]
    """

    random_walk: int
    rings: tuple[int, ...]
    scale: Tensor
    offset: Tensor
    kinds: EdgeTypes | None = None

    @classmethod
    def find(
        cls, values: Tensor, random_walk: int, rings: Sequence[int] = (), kinds: EdgeTypes | None = None
    ) -> "Structure":
        """From the numbers of the training nodes, [N, random_walk + len(rings)]."""
        scale = values.new_ones(values.size(1), dtype=torch.float64)
        offset = torch.zeros_like(scale)
        if random_walk and len(values):
            deviation, mean = torch.std_mean(values[:, :random_walk].double(), dim=0, correction=0)
            least = deviation.max().clamp(ROUNDING, LEAST_DEVIATION)
            scale[:random_walk] = 1 / deviation.maximum(least)
            offset[:random_walk] = -mean * scale[:random_walk]
        return cls(random_walk, tuple(rings), scale.float(), offset.float(), kinds)

    @classmethod
    def blank(cls, random_walk: int, rings: Sequence[int], edge_sizes: Sequence[int] | None) -> "Structure":
        """Of graphs that nobody has seen yet: as large as any, without scale and with one kind of edges.

        ``edge_sizes`` are the numbers of categories of edges, or ``None`` where their features are numbers.
        """
        width = random_walk + len(rings)
        kinds = None
        if rings and edge_sizes is not None:
            kinds = EdgeTypes(torch.zeros(1, len(edge_sizes) + len(rings), dtype=torch.long), tuple(edge_sizes))
        return cls(random_walk, tuple(rings), torch.ones(width), torch.zeros(width), kinds)
