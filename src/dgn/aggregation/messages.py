"""Messages as sums of node and edge parts that are never materialised per edge."""

from typing import NamedTuple

import torch
from torch import Tensor

from dgn.graph import Graph, gather_rows


class Messages(NamedTuple):
    r"""The message :math:`m_{ij} = a_j + b_i + c_{ij}` from j to i, as its parts; any may be missing.

    A linear message function :math:`M(h_j, h_i, e_{ij}) = A h_j + B h_i + C e_{ij} + b` has this form, at the cost of
    N products instead of E.

    Shapes:
        - ``source`` [N, C]: :math:`a`.
        - ``target`` [N, C]: :math:`b`.
        - ``table`` [R, C] and ``row`` [E]: :math:`c` is the row ``row[s]`` of the table for the s-th edge in the
          order sorted by target. Without ``row`` the table has one row per edge, in the order of ``edge_index``.
        - ``node`` [N, C]: the self message :math:`m_i` in a derivative; by default the message without an edge,
          :math:`a_i + b_i`.
    """

    source: Tensor | None = None
    target: Tensor | None = None
    table: Tensor | None = None
    row: Tensor | None = None
    node: Tensor | None = None

    def build(self, graph: Graph) -> Tensor:
        """All messages, sorted by target: [E, C]."""
        layout = graph.by_target
        row = layout.order if self.row is None else self.row
        messages = Messages(self.source, self.target, self.table, row, self.node)
        return messages.gather(layout.neighbor, gather_rows(graph.target, layout.order))

    def gather(self, source: Tensor, target: Tensor) -> Tensor:
        """The messages of edges with these ends, whose rows of the table are ``row``: [E, C]."""
        parts = []
        if self.source is not None:
            parts.append(gather_rows(self.source, source))
        if self.target is not None:
            parts.append(gather_rows(self.target, target))
        if self.table is not None:
            assert self.row is not None
            parts.append(gather_rows(self.table, self.row))
        return torch.stack(parts).sum(dim=0) if len(parts) > 1 else parts[0]

    def of_node(self) -> Tensor:
        """The self message of each node in a derivative: [N, C]."""
        if self.node is not None:
            return self.node
        parts = [part for part in (self.source, self.target) if part is not None]
        return parts[0] if len(parts) == 1 else parts[0] + parts[1]


def check_table_rows(subject: str, row: Tensor, rows: int) -> None:
    """Refuse row indices outside a table; on the CPU only, as a GPU would have to synchronise."""
    if row.device.type != "cpu" or torch.compiler.is_compiling() or not row.numel():
        return
    low, high = (int(end) for end in row.aminmax())
    if low < 0 or high >= rows:
        raise ValueError(
            f"{subject}: expected rows of the table, 0 to {rows - 1}, got {low} to {high}; give the table a row for "
            "each edge type"
        )
