"""Edge features as tables: of edge types, or of few numbers by a linear map."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from dgn.aggregation.messages import check_table_rows
from dgn.graph import Graph
from dgn.nn.fused.wgrad_stream import GradAccumulator, defer_grad
from dgn.nn.linear import Linear


class EdgeTable(NamedTuple):
    """Features of edges of few types: a table, and the row of each edge.

    A linear map is then applied to the table's rows instead of every edge.

    ``accumulator`` and its ``anchor`` gather the gradient of the table from several layers, outside the backward pass.

    Shapes:
        ``table`` [R, D]; ``row`` [E] in the order of ``edge_index``, or, with ``sorted_by_target``, in that order.
    """

    table: Tensor
    row: Tensor
    sorted_by_target: bool = False
    accumulator: GradAccumulator | None = None
    anchor: Tensor | None = None

    @property
    def rows(self) -> Tensor:
        """``row`` in numbers that PyTorch takes for an index: short ones are made long."""
        return self.row if self.row.dtype in (torch.int32, torch.int64) else self.row.long()

    def gather(self) -> "EdgeTable":
        """The same table for several layers that gather its gradient together."""
        accumulator = GradAccumulator()
        return self._replace(accumulator=accumulator, anchor=defer_grad(self.table, accumulator))

    def sort(self, graph: Graph) -> "EdgeTable":
        """The same table with its rows in the order that kernels read."""
        if self.sorted_by_target:
            return self
        if self.row.shape != (graph.num_edges,):
            raise ValueError(
                f"edge_attr: expected the row of each of {graph.num_edges} edges, got shape {list(self.row.shape)}; "
                "give one row number per edge"
            )
        check_table_rows("edge_attr", self.row, len(self.table))
        return self._replace(row=self.rows[graph.by_target.order], sorted_by_target=True)


MOST_NUMBERS = 4  # of an edge, up to which kernels put its features together


class LowRankEdgeFeatures(NamedTuple):
    r"""Features of edges that are combinations of few rows, :math:`f_e = \sum_k n_{ek} t_k`.

    The rows t are those of the transposed matrix of a linear ``encoder``, and behind them its bias (0 without one),
    whose number is 1 for all edges. A further linear map is then applied to the rows instead of every edge, as with an
    :class:`EdgeTable`. ``accumulator`` and its ``anchor`` gather the gradient of the rows from several layers, outside
    the backward pass. Layers that are one function on the GPU read it; :meth:`build` is for all others.

    Shapes:
        ``table`` t [K + 1, D]; ``number`` n [E, K + 1], sorted by target; ``values`` [E, K] in the order of
        ``edge_index``.

    >>> from dgn.graph import as_graph
    >>> graph, values = as_graph(torch.tensor([[0, 2, 1], [1, 1, 0]])), torch.tensor([[3.0], [4.0], [5.0]])
    >>> edges = LowRankEdgeFeatures.of(Linear(1, 2), values, graph)
    >>> edges.number.tolist()
    [[5.0, 1.0], [3.0, 1.0], [4.0, 1.0]]
    >>> torch.allclose(edges.number @ edges.table, edges.build()[graph.by_target.order])
    True
    """

    table: Tensor
    number: Tensor
    accumulator: GradAccumulator
    anchor: Tensor
    encoder: nn.Linear
    values: Tensor

    @classmethod
    def of(cls, encoder: nn.Linear, values: Tensor, graph: Graph) -> "LowRankEdgeFeatures":
        """The features that an encoder makes of the numbers of each edge."""
        weight = encoder.weight
        bias = weight.new_zeros(encoder.out_features) if encoder.bias is None else encoder.bias
        table, accumulator = torch.cat([weight.T, bias[None]]), GradAccumulator()
        number = nn.functional.pad(values[graph.by_target.order], (0, 1), value=1.0)
        return cls(table, number, accumulator, defer_grad(table, accumulator), encoder, values)

    def build(self) -> Tensor:
        """The features of every edge, in the order of ``edge_index``: [E, D]."""
        features: Tensor = self.encoder(self.values)
        return features


Edges = Tensor | EdgeTable | LowRankEdgeFeatures | None


def is_low_rank(encoder: nn.Module | None, values: Tensor, graph: Graph) -> bool:
    """Whether an encoder is a linear map of few numbers of each edge, and nobody asks for their gradient."""
    if not isinstance(encoder, nn.Linear) or type(encoder) not in (nn.Linear, Linear):
        return False
    fits = values.shape == (graph.num_edges, encoder.in_features) and values.dtype == encoder.weight.dtype
    return fits and encoder.in_features <= MOST_NUMBERS and not values.requires_grad
