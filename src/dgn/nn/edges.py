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
        if self.sorted_by_target:
            return self
        if self.row.shape != (graph.num_edges,):
            raise ValueError(
                f"edge_attr: expected the row of each of {graph.num_edges} edges, got shape {list(self.row.shape)}; "
                "give one row number per edge"
            )
        return EdgeTable(self.table, self.row[graph.by_target.order], True)
