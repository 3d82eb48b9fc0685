"""A whole layer in training on the GPU, as one autograd function.

Weight gradients are computed on a side stream (:mod:`dgn.nn.fused.wgrad_stream`).
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.aggregation import Plan, Weights
from dgn.aggregation.custom_op import table_gradient
from dgn.graph import Graph
from dgn.kernels.aggregation import KernelArgs, SavedTensors
from dgn.kernels.autograd import once_differentiable
from dgn.kernels.triton import aggregate as gpu
from dgn.kernels.triton.matmul import multiply, precision
from dgn.kernels.triton.segment_sum import sum_by_type
from dgn.nn.block_linear import MessageLinear
from dgn.nn.conv import DGNConv
from dgn.nn.dropout import Dropout
from dgn.nn.edge_table import EdgeTable
from dgn.nn.fused.epilogue import dropout_mask, epilogue_args
from dgn.nn.fused.gpu_epilogue import BatchStats, EpilogueArgs, combine, norm_gradients, normalize, row_gradients
from dgn.nn.fused.wgrad_stream import GradAccumulator, current_wgrad_stream, defer_grad, on
from dgn.nn.linear import column_sums, grouped_matmul, transposed_matmul
from dgn.nn.low_rank_edges import Edges, LowRankEdgeFeatures
from dgn.nn.norm import BatchNorm
from dgn.nn.validation import check_edges

NARROW = 8  # channels of a tower below which products of single towers are slower than one of all, with its zeros


class LayerParams(NamedTuple):
    """The parameters of a layer; simple messages have none of the first four, messages without edges no ``edge``.

    Shapes:
        ``ends`` [2 in, in], ``message_bias`` [in], ``edge`` [in, D], ``own`` [out, in], ``scaled`` [T, S * out / T,
        A * in / T], ``bias``, ``gamma`` and ``beta`` [out].
    """

    ends: Tensor | None
    message_bias: Tensor | None
    edge: Tensor | None
    own: Tensor | None
    scaled: Tensor
    bias: Tensor
    gamma: Tensor
    beta: Tensor


class LayerArgs(NamedTuple):
    """What a layer does not differentiate itself.

    ``features`` [R, D] are the kinds of edges and ``row`` [E] that of each edge, sorted by target, or ``None`` where
    every edge has its own. With ``number`` [E, R], in the same order, features of an edge are all rows times its
    numbers, the last of which is 1. The gradient of ``features`` is gathered in ``beside``. ``scale`` [N, S], or
    ``None`` for one scaler that is 1.
    """

    plan: Plan
    graph: Graph
    weights: Weights
    features: Tensor | None
    row: Tensor | None
    number: Tensor | None
    scale: Tensor | None
    node_is_input: bool
    residual: bool
    end: EpilogueArgs
    beside: GradAccumulator


def fused_layer(
    x: Tensor,
    conv: DGNConv,
    graph: Graph,
    weights: Weights,
    edge_attr: Edges,
    norm: BatchNorm,
    dropout: Dropout,
    graph_norm: Tensor | None = None,
    node_mask: Tensor | None = None,
    relu: bool = True,
    residual: bool = True,
) -> Tensor:
    """Convolution, size norm, batch norm, ReLU, residual and dropout: [N, in] -> [N, out]."""
    check_edges(conv.edge_dim, edge_attr, graph)
    beside, token, features, row, number = GradAccumulator(), None, None, None, None
    if isinstance(edge_attr, EdgeTable):
        edges = edge_attr.sort(graph)
        edges = edges.gather() if edges.beside is None or edges.token is None else edges
        assert edges.beside is not None
        beside, token, features, row = edges.beside, edges.token, edges.table.detach(), edges.row
    elif isinstance(edge_attr, LowRankEdgeFeatures):
        beside, token, features = edge_attr.beside, edge_attr.token, edge_attr.table.detach()
        number = edge_attr.number
    elif edge_attr is not None:
        token, features = defer_grad(edge_attr, beside), edge_attr.detach()
    with on(beside.side):
        kept = dropout_mask(x.size(0), norm, dropout)
    setting = LayerArgs(
        conv.plan,
        graph,
        weights,
        features,
        row,
        number,
        None if conv.scalers == ("identity",) else conv._scalers(graph, x.dtype),
        conv.dx_reference == "node",
        residual,
        epilogue_args(x.size(0), norm, graph_norm, node_mask, relu, kept, dropout.p),
        beside,
    )
    out: Tensor = _Layer.apply(x, *_layer_params(conv, norm), token, setting)  # type: ignore[no-untyped-call]
    return out


def _layer_params(conv: DGNConv, norm: BatchNorm) -> LayerParams:
    """The parameters of a layer: matrices of all channels but for the largest, which stays in towers if they are wide.

    Matrix units take T times the arithmetic of T narrow towers in their stride; without them it would be slower.
    """

    message, update = conv.message, conv.update
    scaled: Tensor = update.scaled
    if conv.towers > 1 and max(conv.in_channels, conv.out_channels) < NARROW * conv.towers and precision() == "tf32":
        scaled = block_diag(scaled, len(conv.scalers), len(conv.plan))[None]
    ends = bias = edge = own = None
    if isinstance(message, MessageLinear):
        assert update.own is not None
        ends, own, bias = block_diag(message.ends, 2), block_diag(update.own), message.bias.flatten()
        edge = None if message.edge is None else message.edge.flatten(0, 1)
    return LayerParams(ends, bias, edge, own, scaled, update.bias.flatten(), norm.weight, norm.bias)


def block_diag(matrices: Tensor, row_groups: int = 1, column_groups: int = 1) -> Tensor:
    """Matrices of towers as one that keeps the towers apart: ``[T, rows, columns] -> [T rows, T columns]``.

    Rows and columns come in groups; inside a group of the result, tower follows tower.

    >>> block_diag(torch.tensor([[[1.0]], [[2.0]]]))
    tensor([[1., 0.],
            [0., 2.]])
    >>> block_diag(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), column_groups=2)
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
        ctx.side = current_wgrad_stream()
        towers, row_groups, rows, column_groups, columns = parts.shape
        joined = parts.new_empty(row_groups, towers, rows, column_groups, towers, columns)
        return torch.mul(parts.transpose(0, 1).unsqueeze(4), same, out=joined)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        with on(ctx.side, grad):
            return grad.diagonal(dim1=1, dim2=4).permute(4, 0, 1, 2, 3).contiguous(), None


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *given: Any) -> Tensor:
        maps, setting = LayerParams(*given[:8]), given[9]
        x, ends, table, own = x.contiguous(), None, None, None
        if maps.ends is not None and maps.own is not None and maps.message_bias is not None:
            with on(setting.beside.side, x):
                table = None if setting.features is None or maps.edge is None else setting.features @ maps.edge.T
                own = x @ maps.own.T
            ends = multiply(x, maps.ends.T, maps.message_bias)
            setting.beside.join(own, table)
        n, towers = x.size(0), len(maps.scaled)
        saved = gpu.forward(_call(setting, x, ends, table), towers)
        every = grouped_matmul(saved.out.view(n, towers, -1), maps.scaled.transpose(1, 2))
        if setting.end.kept is not None:
            setting.beside.join(setting.end.kept)
        every = every.view(n, towers, -1, maps.bias.numel() // towers)
        y, parts = combine(every, own, setting.scale, maps.bias, setting.end.graph_norm, setting.end.node_mask)
        out, found = normalize(y, parts, maps.gamma, maps.beta, x if setting.residual else None, setting.end)
        ctx.save_for_backward(x, ends, table, y, *found, *saved, *maps)
        ctx.setting = setting
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, ends, table, y, *rest = ctx.saved_tensors
        found, saved, maps, setting = (
            BatchStats(*rest[:3]),
            SavedTensors(*rest[3:8]),
            LayerParams(*rest[8:]),
            ctx.setting,
        )
        grad, (n, width), out, towers = grad.contiguous(), x.shape, maps.bias.numel(), len(maps.scaled)
        of = norm_gradients(grad, y, found, maps.gamma, maps.beta, setting.end)
        every = x.new_empty(n, towers, maps.scaled.size(1)).unflatten(2, (-1, out // towers))
        # The gradients of source, target and own part side by side: what the maps of the node need.
        side_by_side = x.new_empty(n, width if ends is None else 2 * width + out)
        own = None if ends is None else side_by_side[:, 2 * width :]
        grad_residual = row_gradients(
            grad, y, found, maps.gamma, maps.beta, of, setting.end, setting.scale, every, own, setting.residual
        )
        every, aggregated = every.flatten(2), saved.out.view(n, towers, -1)
        with on(setting.beside.side, every, aggregated):
            grad_scaled = transposed_matmul(every, aggregated)
        call = _call(setting, x, ends, table)
        apart = ends is None or call.node is not None  # the node's own gradient is one of x
        extra = grad_residual if apart else None
        grad_aggregated = grouped_matmul(every, maps.scaled)
        edges, node = _messages_back(call, grad_aggregated, saved, side_by_side, extra)
        others = node if apart and node is not None else grad_residual
        if maps.ends is None or maps.own is None:
            grad_maps: tuple[Tensor | None, ...] = (None,) * 4
            grad_x = side_by_side if others is None else side_by_side.add_(others)
        else:
            grad_maps = _maps_back(call, side_by_side, edges, x, maps, setting)
            grad_x = _add_product(others, side_by_side, torch.cat([maps.ends, maps.own]), in_place=others is node)
        token = None if setting.features is None else x.new_empty(0)
        return grad_x, *grad_maps, grad_scaled, of.bias, of.gamma, of.beta, token, None


def _add_product(values: Tensor | None, x: Tensor, matrix: Tensor, in_place: bool) -> Tensor:
    """``values + x @ matrix``; in place only where the values are nobody else's."""
    if values is None:
        return x @ matrix
    return values.addmm_(x, matrix) if in_place else torch.addmm(values, x, matrix)


def _messages_back(
    call: KernelArgs, grad: Tensor, saved: SavedTensors, ends: Tensor, extra: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Gradients of source and target, written side by side; returns those of edges and of the node by itself.

    Those of edges are of the messages, or, where edges have numbers, what each node adds to the rows of the table.
    """
    n, width = call.num_nodes, call.example.size(1)
    # Padding, which kernels leave out, is read only where every edge has a row of the table of its own.
    every_edge = call.table is not None and call.row is None and call.number is None
    edge = (grad.new_zeros if every_edge else grad.new_empty)(call.neighbor.size(0), width)
    node = grad.new_empty(n if call.has_self else 0, width)
    number = None if call.number is None else grad.new_empty(n, call.number.size(1), width)
    target = ends[:, width : 2 * width] if call.target is not None else ends[:0]
    space = edge, ends[:, :width], target, node
    gpu.backward(call, grad, saved, space, extra, towers=grad.size(1), number_grad=number)
    edges = edge if number is None else number
    if not call.has_self:
        return edges, None
    if call.node is None and call.target is not None:  # the node stands for itself by its own parts
        ends[:, : 2 * width].view(-1, 2, width).add_(node[:, None])
        return edges, None
    return edges, node


def _maps_back(
    call: KernelArgs, side_by_side: Tensor, edges: Tensor, x: Tensor, maps: LayerParams, setting: LayerArgs
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Gradients of the maps of a node and of messages, beside the way back."""
    width = x.size(1)
    with on(setting.beside.side, side_by_side, edges, x):
        products = transposed_matmul(side_by_side, x)
        grad_edge = grad_table = None
        if call.table is not None and maps.edge is not None:
            assert setting.features is not None
            grad_table = _table_back(call, edges)
            grad_edge = grad_table.T @ setting.features
            setting.beside.add(grad_table, maps.edge)
        itself = call.has_self and call.node is None
        if grad_table is not None and call.row is not None and not itself:  # the bias is in every message
            grad_message = grad_table.sum(dim=0)
        elif grad_table is not None and call.number is not None and not itself:  # so is the last row
            grad_message = grad_table[-1]
        else:
            grad_message = column_sums(side_by_side[:, width : 2 * width])
    return products[: 2 * width], grad_message, grad_edge, products[2 * width :]


def _table_back(call: KernelArgs, edges: Tensor) -> Tensor:
    """The gradient of the table from those of edges; of padding, which stands behind all others, only zeros."""
    assert call.table is not None
    if call.number is not None:
        return column_sums(edges.flatten(1)).view(edges.shape[1:])
    if call.row is not None:
        return sum_by_type(edges, call.row, call.table.size(0), call.target_to_source, call.pointer[-1:])
    return table_gradient(call, edges, "triton")


def _call(setting: LayerArgs, x: Tensor, ends: Tensor | None, table: Tensor | None) -> KernelArgs:
    plan, graph, weights, layout = setting.plan, setting.graph, setting.weights, setting.graph.by_target
    source, target = (x, None) if ends is None else ends.chunk(2, dim=1)
    node = x if setting.node_is_input and ends is not None else None
    return KernelArgs(
        source, target, table, setting.row if table is not None else None, node, weights.edge.contiguous(),
        weights.self.contiguous(), layout.pointer, layout.order, layout.neighbor, graph.source_pointer,
        graph.target_to_source, list(plan.codes), list(plan.columns), plan.has_self, True, number=setting.number if
        table is not None else None,
    )  # fmt: skip
