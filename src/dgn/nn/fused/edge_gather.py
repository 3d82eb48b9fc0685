"""Values of nodes, brought to the edges between them."""

from typing import Any

import torch
from torch import Tensor

from dgn.aggregation import Messages
from dgn.graph import Graph, take_rows
from dgn.nn.fused.embedding import look_up


def to_edges(source: Tensor, target: Tensor | None, graph: Graph) -> Tensor:
    r"""The sum of what both ends of an edge give: :math:`y_{ji} = a_j + b_i`; without ``target``, b is 0.

    On a GPU the gradients of both ends are sums over the edges of each node, in their order: no sorting, no atomic
    additions. Edges that are padding give none.

    Shapes:
        ``source`` a and ``target`` b [N, C]; returns [E, C] in the order of ``edge_index``.

    >>> import dgn
    >>> one_way = dgn.as_graph(torch.tensor([[0, 2], [1, 1]]))
    >>> to_edges(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[10.0], [20.0], [30.0]]), one_way).tolist()
    [[21.0], [23.0]]
    """
    if source.is_cuda and not torch.compiler.is_compiling():
        return by_segments(source, target, graph)
    ends = take_rows(source, graph.source)
    return ends if target is None else ends + take_rows(target, graph.target)


def by_segments(source: Tensor, target: Tensor | None, graph: Graph) -> Tensor:
    """:func:`to_edges` with sums of segments on the way back."""
    out: Tensor = _Ends.apply(source, target, graph)  # type: ignore[no-untyped-call]
    return out


def build_messages(messages: Messages, graph: Graph) -> Tensor:
    """All messages, [E, C] in the order of ``edge_index``."""
    parts = []
    if messages.source is not None:
        parts.append(to_edges(messages.source, messages.target, graph))
    if messages.table is not None and messages.row is None:
        parts.append(messages.table)
    elif messages.table is not None and messages.row is not None:  # rows are sorted by target
        row = torch.empty_like(messages.row).index_copy(0, graph.by_target.order.long(), messages.row)
        parts.append(look_up(row[:, None], messages.table))
    return parts[0] if len(parts) == 1 else parts[0] + parts[1]


class _Ends(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: Tensor, target: Tensor | None, graph: Graph) -> Tensor:
        ctx.graph = graph
        ends = source[graph.source]
        return ends if target is None else ends + target[graph.target]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor | None, None]:
        graph: Graph = ctx.graph
        by_target = grad[graph.by_target.order]
        by_source = torch.empty_like(by_target).index_copy(0, graph.place.long(), by_target)
        of_target = _sums(by_target, graph.by_target.pointer) if ctx.needs_input_grad[1] else None
        return _sums(by_source, graph.source_pointer), of_target, None


def _sums(values: Tensor, pointer: Tensor) -> Tensor:
    return torch.segment_reduce(values, "sum", offsets=pointer, axis=0, initial=0)
