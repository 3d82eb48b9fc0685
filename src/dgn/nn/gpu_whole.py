"""Whether a layer is one function on the GPU, and what that function is given."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from dgn.aggregation import Weights
from dgn.graph import Graph
from dgn.graph.derivatives import differentiable_once
from dgn.nn.arguments import check_edges
from dgn.nn.aside import Beside, current_side, gather_beside, on
from dgn.nn.conv import DGNConv
from dgn.nn.dropout import Dropout
from dgn.nn.edge_numbers import EdgeNumbers, Edges
from dgn.nn.edges import EdgeTable
from dgn.nn.linear import MessageLinear
from dgn.nn.norm import BatchNorm
from dgn.nn.tail import draw_mask, end_of_layer, is_fused

WIDEST = 256  # channels up to which a layer is one function: beyond, the library's products are faster
MOST_KINDS = 64  # of edges, for the same


def is_whole(x: Tensor, conv: DGNConv, norm: BatchNorm | None, weights: Weights, edge_attr: Edges) -> bool:
    """Whether :func:`run_layer` applies: in training, with linear messages, a field that is not learned, few kinds."""
    learned = torch.is_grad_enabled() and any(part.requires_grad for part in weights)
    few = not isinstance(edge_attr, EdgeTable) or len(edge_attr.table) <= MOST_KINDS
    fits = x.dim() == 2 and x.size(1) == conv.in_channels
    return fits and few and not learned and may_be_whole(x, conv, norm)


def may_be_whole(like: Tensor, conv: DGNConv, norm: BatchNorm | None) -> bool:
    """Whether :func:`run_layer` applies to features of the type and device of ``like``, if the field allows it."""
    if norm is None or conv.gate is not None or conv.plan.has_groups or conv.backend not in ("auto", "triton"):
        return False
    linear = conv.message is None or isinstance(conv.message, MessageLinear)
    narrow = max(conv.in_channels, conv.out_channels) <= WIDEST
    return linear and narrow and is_fused(like, norm)


def run_layer(
    x: Tensor,
    conv: DGNConv,
    graph: Graph,
    weights: Weights,
    edge_attr: Edges,
    norm: BatchNorm,
    dropout: Dropout,
    size: Tensor | None = None,
    real: Tensor | None = None,
    relu: bool = True,
    residual: bool = True,
) -> Tensor:
    """Convolution, size norm, batch norm, ReLU, residual and dropout: [N, in] -> [N, out]."""
    from dgn.nn.gpu_layer import Setting, whole_layer

    check_edges(conv.edge_dim, edge_attr, graph)
    beside, token, features, row, number = Beside(), None, None, None, None
    if isinstance(edge_attr, EdgeTable):
        edges = edge_attr.sort(graph)
        edges = edges.gather() if edges.beside is None or edges.token is None else edges
        assert edges.beside is not None
        beside, token, features, row = edges.beside, edges.token, edges.table.detach(), edges.row
    elif isinstance(edge_attr, EdgeNumbers):
        beside, token, features = edge_attr.beside, edge_attr.token, edge_attr.table.detach()
        number = edge_attr.number
    elif edge_attr is not None:
        token, features = gather_beside(edge_attr, beside), edge_attr.detach()
    with on(beside.side):
        kept = draw_mask(x.size(0), norm, dropout)
    setting = Setting(
        conv.plan,
        graph,
        weights,
        features,
        row,
        number,
        None if conv.scalers == ("identity",) else conv._scalers(graph, x.dtype),
        conv.derivative == "authors",
        residual,
        end_of_layer(x.size(0), norm, size, real, relu, kept, dropout.p),
        beside,
    )
    return whole_layer(x, _maps(conv, norm), token, setting)


def _maps(conv: DGNConv, norm: BatchNorm) -> Any:
    """The parameters of a layer: matrices of all channels but for the largest, which stays in towers."""
    from dgn.nn.gpu_layer import Maps

    message, update = conv.message, conv.update
    ends = bias = edge = own = None
    if isinstance(message, MessageLinear):
        assert update.own is not None
        ends, own, bias = join_towers(message.ends, 2), join_towers(update.own), message.bias.flatten()
        edge = None if message.edge is None else message.edge.flatten(0, 1)
    return Maps(ends, bias, edge, own, update.scaled, update.bias.flatten(), norm.weight, norm.bias)


def join_towers(matrices: Tensor, groups: int = 1) -> Tensor:
    """Matrices of towers as one that keeps the towers apart: ``[T, R rows, columns] -> [R T rows, T columns]``.

    Rows come in R ``groups``; inside a group of the result, tower follows tower.

    >>> join_towers(torch.tensor([[[1.0]], [[2.0]]]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    towers, height, length = matrices.shape
    if towers == 1:
        return matrices.flatten(0, 1)
    place = _places(towers, height, length, height // groups, matrices.device)
    joined: Tensor = _Join.apply(matrices, place)  # type: ignore[no-untyped-call]
    return joined


@cache
def _places(towers: int, height: int, length: int, rows: int, device: torch.device) -> Tensor:
    """Where each number of the towers stands in the whole matrix."""
    tower, row, column = torch.meshgrid(torch.arange(towers), torch.arange(height), torch.arange(length), indexing="ij")
    to_row = (row // rows * towers + tower) * rows + row % rows
    return ((to_row * towers + tower) * length + column).flatten().to(device)


class _Join(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrices: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        ctx.shape, ctx.side = matrices.shape, current_side()
        towers, height, length = matrices.shape
        whole = matrices.new_zeros(towers * towers * height * length)
        return whole.index_copy_(0, place, matrices.flatten()).view(towers * height, towers * length)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (place,) = ctx.saved_tensors
        with on(ctx.side, grad):
            return grad.flatten().index_select(0, place).view(ctx.shape), None
