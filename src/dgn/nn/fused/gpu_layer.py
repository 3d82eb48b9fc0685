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
from dgn.nn.edge_features import Edges, EdgeTable, LowRankEdgeFeatures
from dgn.nn.fused.epilogue import dropout_mask, epilogue_args
from dgn.nn.fused.gpu_epilogue import BatchStats, EpilogueArgs, combine, norm_gradients, normalize, row_gradients
from dgn.nn.fused.wgrad_stream import GradAccumulator, current_wgrad_stream, defer_grad, on
from dgn.nn.inputs import check_edges
from dgn.nn.linear import column_sums, grouped_matmul, transposed_matmul
from dgn.nn.norm import BatchNorm

NARROW = 8  # channels of a tower below which products of single towers are slower than one of all, with its zeros


class LayerParams(NamedTuple):
    """The parameters of a layer; simple messages have none of the first four, messages without edges no ``w_edge``.

    Shapes:
        ``w_src_dst`` [2 in, in], ``message_bias`` [in], ``w_edge`` [in, D], ``w_self`` [out, in], ``w_scaled`` [T, S *
        out / T, A * in / T], ``bias``, ``gamma`` and ``beta`` [out].
    """

    w_src_dst: Tensor | None
    message_bias: Tensor | None
    w_edge: Tensor | None
    w_self: Tensor | None
    w_scaled: Tensor
    bias: Tensor
    gamma: Tensor
    beta: Tensor


class LayerArgs(NamedTuple):
    """What a layer does not differentiate itself.

    ``features`` [R, D] are those of edge types and ``row`` [E] the type of each edge, sorted by target, or ``None``
    where every edge has its own. With ``number`` [E, R], in the same order, features of an edge are all rows times its
    numbers, the last of which is 1. The gradient of ``features`` is gathered in ``accumulator``. ``scale`` [N, S], or
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
    accumulator: GradAccumulator


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
    accumulator, anchor, features, row, number = GradAccumulator(), None, None, None, None
    if isinstance(edge_attr, EdgeTable):
        edges = edge_attr.sort(graph)
        edges = edges.gather() if edges.accumulator is None or edges.anchor is None else edges
        assert edges.accumulator is not None
        accumulator, anchor, features, row = edges.accumulator, edges.anchor, edges.table.detach(), edges.row
    elif isinstance(edge_attr, LowRankEdgeFeatures):
        accumulator, anchor, features = edge_attr.accumulator, edge_attr.anchor, edge_attr.table.detach()
        number = edge_attr.number
    elif edge_attr is not None:
        anchor, features = defer_grad(edge_attr, accumulator), edge_attr.detach()
    with on(accumulator.stream):
        mask = dropout_mask(x.size(0), norm, dropout)
    args = LayerArgs(
        conv.plan,
        graph,
        weights,
        features,
        row,
        number,
        None if conv.scalers == ("identity",) else conv._scalers(graph, x.dtype),
        conv.dx_reference == "node",
        residual,
        epilogue_args(x.size(0), norm, graph_norm, node_mask, relu, mask, dropout.p),
        accumulator,
    )
    out: Tensor = _Layer.apply(x, *_layer_params(conv, norm), anchor, args)  # type: ignore[no-untyped-call]
    return out


def _layer_params(conv: DGNConv, norm: BatchNorm) -> LayerParams:
    """The parameters of a layer: matrices of all channels but for the largest, which stays in towers if they are wide.

    Matrix units take T times the arithmetic of T narrow towers in their stride; without them it would be slower.
    """

    message, update = conv.message, conv.update
    scaled: Tensor = update.scaled
    if conv.towers > 1 and max(conv.in_channels, conv.out_channels) < NARROW * conv.towers and precision() == "tf32":
        scaled = block_diag(scaled, len(conv.scalers), len(conv.plan))[None]
    ends = bias = edge = self_out = None
    if isinstance(message, MessageLinear):
        assert update.own is not None
        ends, self_out, bias = block_diag(message.ends, 2), block_diag(update.own), message.bias.flatten()
        edge = None if message.edge is None else message.edge.flatten(0, 1)
    return LayerParams(ends, bias, edge, self_out, scaled, update.bias.flatten(), norm.weight, norm.bias)


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
        ctx.stream = current_wgrad_stream()
        towers, row_groups, rows, column_groups, columns = parts.shape
        joined = parts.new_empty(row_groups, towers, rows, column_groups, towers, columns)
        return torch.mul(parts.transpose(0, 1).unsqueeze(4), same, out=joined)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        with on(ctx.stream, grad):
            return grad.diagonal(dim1=1, dim2=4).permute(4, 0, 1, 2, 3).contiguous(), None


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *inputs: Any) -> Tensor:
        *parameters, _, args = inputs
        params = LayerParams(*parameters)
        x, ends, table, self_out = x.contiguous(), None, None, None
        if params.w_src_dst is not None and params.w_self is not None and params.message_bias is not None:
            with on(args.accumulator.stream, x):
                table = None if args.features is None or params.w_edge is None else args.features @ params.w_edge.T
                self_out = x @ params.w_self.T
            ends = multiply(x, params.w_src_dst.T, params.message_bias)
            args.accumulator.join(self_out, table)
        n, towers = x.size(0), len(params.w_scaled)
        saved = gpu.forward(_kernel_args(args, x, ends, table), towers)
        scaled_out = grouped_matmul(saved.out.view(n, towers, -1), params.w_scaled.transpose(1, 2))
        if args.end.mask is not None:
            args.accumulator.join(args.end.mask)
        scaled_out = scaled_out.view(n, towers, -1, params.bias.numel() // towers)
        y, parts = combine(scaled_out, self_out, args.scale, params.bias, args.end.graph_norm, args.end.node_mask)
        out, stats = normalize(y, parts, params.gamma, params.beta, x if args.residual else None, args.end)
        ctx.save_for_backward(x, ends, table, y, *stats, *saved, *params)
        ctx.args = args
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, ends, table, y, *rest = ctx.saved_tensors
        stats, saved, params, args = (
            BatchStats(*rest[:3]),
            SavedTensors(*rest[3:8]),
            LayerParams(*rest[8:]),
            ctx.args,
        )
        grad, (n, width), out, towers = grad.contiguous(), x.shape, params.bias.numel(), len(params.w_scaled)
        of = norm_gradients(grad, y, stats, params.gamma, params.beta, args.end)
        scaled_out = x.new_empty(n, towers, params.w_scaled.size(1)).unflatten(2, (-1, out // towers))
        # The gradients of source, target and self terms, side by side: the operands of the weight gradients.
        node_grads = x.new_empty(n, width if ends is None else 2 * width + out)
        self_out = None if ends is None else node_grads[:, 2 * width :]
        grad_residual = row_gradients(
            grad, y, stats, params.gamma, params.beta, of, args.end, args.scale, scaled_out, self_out, args.residual
        )
        scaled_out, aggregated = scaled_out.flatten(2), saved.out.view(n, towers, -1)
        with on(args.accumulator.stream, scaled_out, aggregated):
            grad_scaled = transposed_matmul(scaled_out, aggregated)
        kernel_args = _kernel_args(args, x, ends, table)
        apart = ends is None or kernel_args.node is not None  # the node's own gradient is one of x
        extra = grad_residual if apart else None
        grad_aggregated = grouped_matmul(scaled_out, params.w_scaled)
        edges, node = _message_grads(kernel_args, grad_aggregated, saved, node_grads, extra)
        others = node if apart and node is not None else grad_residual
        if params.w_src_dst is None or params.w_self is None:
            grad_params: tuple[Tensor | None, ...] = (None,) * 4
            grad_x = node_grads if others is None else node_grads.add_(others)
        else:
            grad_params = _param_grads(kernel_args, node_grads, edges, x, params, args)
            grad_x = _add_product(
                others, node_grads, torch.cat([params.w_src_dst, params.w_self]), in_place=others is node
            )
        anchor = None if args.features is None else x.new_empty(0)
        return grad_x, *grad_params, grad_scaled, of.bias, of.gamma, of.beta, anchor, None


def _add_product(values: Tensor | None, x: Tensor, matrix: Tensor, in_place: bool) -> Tensor:
    """``values + x @ matrix``; in place only where nothing else reads the values."""
    if values is None:
        return x @ matrix
    return values.addmm_(x, matrix) if in_place else torch.addmm(values, x, matrix)


def _message_grads(
    kernel_args: KernelArgs, grad: Tensor, saved: SavedTensors, ends: Tensor, extra: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """Gradients of source and target, written stream by stream; returns those of edges and of the node by itself.

    Those of edges are of the messages, or, where edges have numbers, what each node adds to the rows of the table.
    """
    n, width = kernel_args.num_nodes, kernel_args.example.size(1)
    # Padding, which kernels leave out, is read only where every edge has a row of the table of its self_out.
    every_edge = kernel_args.table is not None and kernel_args.row is None and kernel_args.number is None
    edge = (grad.new_zeros if every_edge else grad.new_empty)(kernel_args.neighbor.size(0), width)
    node = grad.new_empty(n if kernel_args.has_self else 0, width)
    number = None if kernel_args.number is None else grad.new_empty(n, kernel_args.number.size(1), width)
    target = ends[:, width : 2 * width] if kernel_args.target is not None else ends[:0]
    space = edge, ends[:, :width], target, node
    gpu.backward(kernel_args, grad, saved, space, extra, towers=grad.size(1), number_grad=number)
    edges = edge if number is None else number
    if not kernel_args.has_self:
        return edges, None
    if kernel_args.node is None and kernel_args.target is not None:  # the node stands for itself by its own parts
        ends[:, : 2 * width].view(-1, 2, width).add_(node[:, None])
        return edges, None
    return edges, node


def _param_grads(
    kernel_args: KernelArgs, node_grads: Tensor, edges: Tensor, x: Tensor, params: LayerParams, args: LayerArgs
) -> tuple[Tensor, Tensor, Tensor | None, Tensor]:
    """Weight gradients of the node and message maps, on the side stream."""
    width = x.size(1)
    with on(args.accumulator.stream, node_grads, edges, x):
        products = transposed_matmul(node_grads, x)
        grad_edge = grad_table = None
        if kernel_args.table is not None and params.w_edge is not None:
            assert args.features is not None
            grad_table = _table_grad(kernel_args, edges)
            grad_edge = grad_table.T @ args.features
            args.accumulator.add(grad_table, params.w_edge)
        itself = kernel_args.has_self and kernel_args.node is None
        if grad_table is not None and kernel_args.row is not None and not itself:  # the bias is in every message
            grad_message = grad_table.sum(dim=0)
        elif grad_table is not None and kernel_args.number is not None and not itself:  # so is the last row
            grad_message = grad_table[-1]
        else:
            grad_message = column_sums(node_grads[:, width : 2 * width])
    return products[: 2 * width], grad_message, grad_edge, products[2 * width :]


def _table_grad(kernel_args: KernelArgs, edges: Tensor) -> Tensor:
    """The gradient of the table from those of edges; of padding, which stands behind all others, only zeros."""
    assert kernel_args.table is not None
    if kernel_args.number is not None:
        return column_sums(edges.flatten(1)).view(edges.shape[1:])
    if kernel_args.row is not None:
        types, order, last = kernel_args.table.size(0), kernel_args.target_to_source, kernel_args.pointer[-1:]
        return sum_by_type(edges, kernel_args.row, types, order, last)
    return table_gradient(kernel_args, edges, "triton")


def _kernel_args(args: LayerArgs, x: Tensor, ends: Tensor | None, table: Tensor | None) -> KernelArgs:
    plan, graph, weights, layout = args.plan, args.graph, args.weights, args.graph.by_target
    source, target = (x, None) if ends is None else ends.chunk(2, dim=1)
    node = x if args.node_is_input and ends is not None else None
    return KernelArgs(
        source, target, table, args.row if table is not None else None, node, weights.edge.contiguous(),
        weights.self.contiguous(), layout.pointer, layout.order, layout.neighbor, graph.source_pointer,
        graph.target_to_source, list(plan.codes), list(plan.columns), plan.has_self, True,
        number=args.number if table is not None else None,
    )  # fmt: skip
