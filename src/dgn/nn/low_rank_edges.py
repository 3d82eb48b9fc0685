"""Edge features that a linear map makes of few numbers, kept as the rows of that map."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dgn.graph import Graph
from dgn.nn.edge_table import EdgeTable
from dgn.nn.fused.wgrad_stream import GradAccumulator, defer_grad
from dgn.nn.linear import Linear

MOST_NUMBERS = 4  # of an edge, up to which kernels put its features together


class LowRankEdgeFeatures(NamedTuple):
    r"""Features of edges that are combinations of few rows, :math:`f_e = \sum_k n_{ek} t_k`.

    The rows t are those of the transposed matrix of a linear ``encoder``, and behind them its bias (0 without one),
    whose number is 1 for all edges. A further linear map is then applied to the rows instead of every edge, as with an
    :class:`EdgeTable`. ``beside`` and its ``token`` gather the gradient of the rows from several layers, off the way
    back. Layers that are one function on the GPU read it; :meth:`build` is for all others.

    Shapes:
        ``table`` t [K + 1, D]; ``number`` n [E, K + 1], sorted by target; ``given`` [E, K] in the order of
        ``edge_index``.

    >>> from dgn.graph import as_graph
    >>> graph, given = as_graph(torch.tensor([[0, 2, 1], [1, 1, 0]])), torch.tensor([[3.0], [4.0], [5.0]])
    >>> edges = LowRankEdgeFeatures.of(Linear(1, 2), given, graph)
    >>> edges.number.tolist()
    [[5.0, 1.0], [3.0, 1.0], [4.0, 1.0]]
    >>> torch.allclose(edges.number @ edges.table, edges.build()[graph.by_target.order])
    True
    """

    table: Tensor
    number: Tensor
    beside: GradAccumulator
    token: Tensor
    encoder: nn.Linear
    given: Tensor

    @classmethod
    def of(cls, encoder: nn.Linear, given: Tensor, graph: Graph) -> "LowRankEdgeFeatures":
        """The features that an encoder makes of the numbers of each edge."""
        weight = encoder.weight
        bias = weight.new_zeros(encoder.out_features) if encoder.bias is None else encoder.bias
        table, beside = torch.cat([weight.T, bias[None]]), GradAccumulator()
        number = nn.functional.pad(given[graph.by_target.order], (0, 1), value=1.0)
        return cls(table, number, beside, defer_grad(table, beside), encoder, given)

    def build(self) -> Tensor:
        """The features of every edge, in the order of ``edge_index``: [E, D]."""
        features: Tensor = self.encoder(self.given)
        return features


Edges = Tensor | EdgeTable | LowRankEdgeFeatures | None


def is_low_rank(encoder: nn.Module | None, given: Tensor, graph: Graph) -> bool:
    """Whether an encoder is a linear map of few numbers of each edge, and nobody asks for their gradient."""
    if not isinstance(encoder, nn.Linear) or type(encoder) not in (nn.Linear, Linear):
        return False
    fits = given.shape == (graph.num_edges, encoder.in_features) and given.dtype == encoder.weight.dtype
    return fits and encoder.in_features <= MOST_NUMBERS and not given.requires_grad
