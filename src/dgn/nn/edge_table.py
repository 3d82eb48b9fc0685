"""Edge features, kept as a table where they are categories."""

from typing import NamedTuple

import torch
from torch import Tensor

from dgn.graph import Graph
from dgn.graph.checks import check_table_rows
from dgn.nn.fused.wgrad_stream import GradAccumulator, defer_grad


class EdgeTable(NamedTuple):
    """Features of edges that fall into few kinds: a table, and the row of each edge.

    A linear map is then applied to the table's rows instead of every edge.

    ``beside`` and its ``token`` gather the gradient of the table from several layers, off the way back.

    Shapes:
        ``table`` [R, D]; ``row`` [E] in the order of ``edge_index``, or, with ``sorted_by_target``, in that order.
    """

    table: Tensor
    row: Tensor
    sorted_by_target: bool = False
    beside: GradAccumulator | None = None
    token: Tensor | None = None

    @property
    def rows(self) -> Tensor:
        """``row`` in numbers that PyTorch takes for an index: short ones are made long."""
        return self.row if self.row.dtype in (torch.int32, torch.int64) else self.row.long()

    def gather(self) -> "EdgeTable":
        """The same table for several layers that gather its gradient together."""
        beside = GradAccumulator()
        return self._replace(beside=beside, token=defer_grad(self.table, beside))

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
