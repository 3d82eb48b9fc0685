"""Whether a layer is one function on the GPU, and what that function is given."""

from functools import cache
from typing import Any

import torch
from torch import Tensor

from dgn.aggregation import Weights
from dgn.graph import Graph
from dgn.kernels.autograd import differentiable_once
from dgn.nn.block_linear import MessageLinear
from dgn.nn.conv import DGNConv
from dgn.nn.dropout import Dropout
from dgn.nn.edge_table import EdgeTable
from dgn.nn.fused.epilogue import draw_mask, end_of_layer, is_fused
from dgn.nn.fused.wgrad_stream import Beside, current_side, gather_beside, on
from dgn.nn.low_rank_edges import EdgeNumbers, Edges
from dgn.nn.norm import BatchNorm
from dgn.nn.validation import check_edges

WIDEST = 256  # channels up to which a layer is one function: beyond, the library's products are faster
MOST_KINDS = 64  # of edges, for the same
NARROW = 8  # channels of a tower below which products of single towers are slower than one of all, with its zeros


def is_whole(x: Tensor, conv: DGNConv, norm: BatchNorm | None, weights: Weights, edge_attr: Edges) -> bool:
    """Whether :func:`run_layer` applies: in training, with linear messages, a field that is not learned, few kinds."""
    learned = torch.is_grad_enabled() and any(part.requires_grad for part in weights)
    few = not isinstance(edge_attr, EdgeTable) or len(edge_attr.table) <= MOST_KINDS
    fits = x.dim() == 2 and x.size(1) == conv.in_channels
    return fits and few and not learned and may_be_whole(x, conv, norm)


def may_be_whole(like: Tensor, conv: DGNConv, norm: BatchNorm | None) -> bool:
    """Whether :func:`run_layer` applies to features of the type and device of ``like``, if the field allows it."""
    if norm is None or conv.plan.has_groups or conv.backend not in ("auto", "triton"):
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
    from dgn.nn.fused.gpu_layer import Setting, whole_layer

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
    """The parameters of a layer: matrices of all channels but for the largest, which stays in towers if they are wide.

    Matrix units take T times the arithmetic of T narrow towers in their stride; without them it would be slower.
    """
    from dgn.kernels.triton.matmul import precision
    from dgn.nn.fused.gpu_layer import Maps

    message, update = conv.message, conv.update
    scaled: Tensor = update.scaled
    if conv.towers > 1 and max(conv.in_channels, conv.out_channels) < NARROW * conv.towers and precision() == "tf32":
        scaled = join_towers(scaled, len(conv.scalers), len(conv.plan))[None]
    ends = bias = edge = own = None
    if isinstance(message, MessageLinear):
        assert update.own is not None
        ends, own, bias = join_towers(message.ends, 2), join_towers(update.own), message.bias.flatten()
        edge = None if message.edge is None else message.edge.flatten(0, 1)
    return Maps(ends, bias, edge, own, scaled, update.bias.flatten(), norm.weight, norm.bias)


def join_towers(matrices: Tensor, row_groups: int = 1, column_groups: int = 1) -> Tensor:
    """Matrices of towers as one that keeps the towers apart: ``[T, rows, columns] -> [T rows, T columns]``.

    Rows and columns come in groups; inside a group of the result, tower follows tower.

    >>> join_towers(torch.tensor([[[1.0]], [[2.0]]]))
    tensor([[1., 0.],
            [0., 2.]])
    >>> join_towers(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), column_groups=2)
    tensor([[1., 0., 2., 0.],
            [0., 3., 0., 4.]])
    """
    towers, height, length = matrices.shape
    if towers == 1:
        return matrices.flatten(0, 1)
    rows, columns = height // row_groups, length // column_groups
    parts = matrices.view(towers, row_groups, rows, column_groups, columns)
    joined: Tensor = _Join.apply(parts, _same_tower(towers, matrices.dtype, matrices.device))  # type: ignore[no-untyped-call]
    return joined.view(towers * height, towers * length)


@cache
def _same_tower(towers: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """1 where the tower of a row is the tower of a column, among [groups, T, rows, groups, T, columns]; else 0."""
    return torch.eye(towers, dtype=dtype, device=device).view(1, towers, 1, 1, towers, 1)


class _Join(torch.autograd.Function):
    """``[T, R, rows, C, columns] -> [R, T, rows, C, T, columns]``, 0 between different towers."""

    @staticmethod
    def forward(ctx: Any, parts: Tensor, same: Tensor) -> Tensor:
        ctx.side = current_side()
        towers, row_groups, rows, column_groups, columns = parts.shape
        joined = parts.new_empty(row_groups, towers, rows, column_groups, towers, columns)
        return torch.mul(parts.transpose(0, 1).unsqueeze(4), same, out=joined)

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        with on(ctx.side, grad):
            return grad.diagonal(dim1=1, dim2=4).permute(4, 0, 1, 2, 3).contiguous(), None
