"""Edge features, kept as a table where they are categories."""

from typing import NamedTuple

from torch import Tensor

from dgn.graph import Graph


class EdgeTable(NamedTuple):
    """Features of edges that fall into few kinds: a table, and the row of each edge.

    A linear map is then applied to the table's rows instead of every edge.

    Shapes:
        ``table`` [R, D]; ``row`` [E] in the order of ``edge_index``, or, with ``sorted_by_target``, in that order.
    """

    table: Tensor
    row: Tensor
    sorted_by_target: bool = False

    def sort(self, graph: Graph) -> "EdgeTable":
        """The same table with its rows in the order that kernels read."""
        return self if self.sorted_by_target else EdgeTable(self.table, self.row[graph.by_target.order], True)
