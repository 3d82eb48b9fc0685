"""A convolution on the GPU as one autograd function: alone, or as the first half of a fused layer.

Weight gradients are computed on a side stream where there is one (:mod:`dgn.nn.fused.wgrad_stream`).
"""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from dgn.aggregation import Plan, Weights
from dgn.aggregation.dispatch import has_row_per_edge
from dgn.graph import Graph
from dgn.kernels.aggregation import KernelArgs, SavedTensors
from dgn.kernels.autograd import once_differentiable
from dgn.kernels.triton import aggregate as gpu
from dgn.kernels.triton.matmul import multiply, precision
from dgn.kernels.triton.segment_sum import sum_by_type
from dgn.nn.conv import DGNConv
from dgn.nn.edge_features import Edges, EdgeTable, LowRankEdgeFeatures
from dgn.nn.fused.gpu_epilogue import combine, scale_gradient
from dgn.nn.fused.gpu_simple_conv import is_simple, simple_conv
from dgn.nn.fused.wgrad_stream import GradAccumulator, current_wgrad_stream, join, on
from dgn.nn.linear import MessageLinear, column_sums, grouped_matmul, transposed_matmul

NARROW = 8  # channels of a tower below which products of single towers are slower than one of all, with its zeros


class ConvParams(NamedTuple):
    """The parameters of a convolution; simple messages have none of the first four, those without edges no ``w_edge``.

    Towers are one matrix that keeps them apart, but for the largest, which stays in towers if they are wide: matrix
    units take T times the arithmetic of T narrow towers in their stride; without them it would be slower.

    Shapes:
        ``w_src_dst`` [1, 2 in, in], ``message_bias`` [T, in / T], ``w_edge`` [T, in / T, D], ``w_self`` [1, out, in],
        ``w_scaled`` [T, S * out / T, A * in / T], ``bias`` [T, out / T].
    """

    w_src_dst: Tensor | None
    message_bias: Tensor | None
    w_edge: Tensor | None
    w_self: Tensor | None
    w_scaled: Tensor
    bias: Tensor

    @classmethod
    def of(cls, conv: DGNConv) -> "ConvParams":
        message, update = conv.message, conv.update
        scaled: Tensor = update.scaled
        narrow = max(conv.in_channels, conv.out_channels) < NARROW * conv.towers
        if conv.towers > 1 and narrow and precision() == "tf32":
            scaled = block_diag(scaled, len(conv.scalers), len(conv.plan))
        if not isinstance(message, MessageLinear):
            return cls(None, None, None, None, scaled, update.bias)
        assert update.own is not None
        ends, own = block_diag(message.ends, 2), block_diag(update.own)
        return cls(ends, message.bias, message.edge, own, scaled, update.bias)


class ConvArgs(NamedTuple):
    """What a convolution does not differentiate itself.

    ``features`` [R, D] are those of edge types and ``row`` [E] the type of each edge, sorted by target, or ``None``
    where every edge has its own. With ``number`` [E, R], in the same order, features of an edge are all rows times its
    numbers, the last of which is 1. ``anchor`` stands in autograd for the features: where ``accumulator`` gathers their
    gradient from several layers it is empty, else it is the features. ``scale`` [N, S], or ``None`` for one scaler that
    is 1. ``save``: a backward pass follows. ``stream``: where gradients of parameters are computed, if it is another.
    """

    plan: Plan
    graph: Graph
    weights: Weights
    features: Tensor | None
    row: Tensor | None
    number: Tensor | None
    scale: Tensor | None
    node_is_input: bool
    anchor: Tensor | None
    accumulator: GradAccumulator | None
    stream: "torch.cuda.Stream | None"
    save: bool

    @classmethod
    def of(
        cls, conv: DGNConv, graph: Graph, weights: Weights, edge_attr: Edges, dtype: torch.dtype, save: bool = True
    ) -> "ConvArgs":
        conv.check_edges(edge_attr, graph)
        anchor = accumulator = features = row = number = None
        if isinstance(edge_attr, EdgeTable):
            edges = edge_attr if edge_attr.sorted_by_target else edge_attr.sort(graph)
            edges = edges.gather() if edges.accumulator is None or edges.anchor is None else edges
            accumulator, anchor, features, row = edges.accumulator, edges.anchor, edges.table.detach(), edges.row
        elif isinstance(edge_attr, LowRankEdgeFeatures):
            accumulator, anchor, features = edge_attr.accumulator, edge_attr.anchor, edge_attr.table.detach()
            number = edge_attr.number
        elif edge_attr is not None:
            anchor, features = edge_attr, edge_attr.detach()
        scale = None if conv.scalers == ("identity",) else conv._scalers(graph, dtype)
        node_is_input, stream = conv.dx_reference == "node", current_wgrad_stream()
        return cls(
            conv.plan, graph, weights, features, row, number, scale, node_is_input, anchor, accumulator, stream, save
        )  # fmt: skip


class ConvState(NamedTuple):
    """What the backward pass reads: ``x`` [N, in], both ``ends`` of messages [N, 2 in], their ``table``, and sums."""

    x: Tensor
    ends: Tensor | None
    table: Tensor | None
    saved: SavedTensors


def fused_conv(x: Tensor, conv: DGNConv, graph: Graph, weights: Weights, edge_attr: Edges) -> Tensor:
    """A convolution in few launches: [N, in] -> [N, out]."""
    if edge_attr is None and is_simple(conv):
        return simple_conv(x, conv, graph, weights)
    params, args = ConvParams.of(conv), ConvArgs.of(conv, graph, weights, edge_attr, x.dtype)
    inputs = (x, *params, args.anchor)
    if torch.is_grad_enabled() and any(part is not None and part.requires_grad for part in inputs):
        out: Tensor = _Conv.apply(*inputs, args)  # type: ignore[no-untyped-call]
        return out
    return _output(*aggregate_parts(x.contiguous(), params, args._replace(save=False)), params, args)


class _Conv(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *inputs: Any) -> Tensor:
        *parameters, _, ctx.args = inputs
        params = ConvParams(*parameters)
        self_out, state = aggregate_parts(x.contiguous(), params, ctx.args)
        ctx.save_for_backward(*state[:3], *state.saved, *params)
        return _output(self_out, state, params, ctx.args)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, ends, table, *rest = ctx.saved_tensors
        state, params, args = ConvState(x, ends, table, SavedTensors(*rest[:5])), ConvParams(*rest[5:]), ctx.args
        grad, towers = grad.contiguous(), params.w_scaled.size(0)
        node_grads = empty_node_grads(state, params)
        self_grad = None if ends is None else node_grads[:, 2 * x.size(1) :]
        scaled_grad = scale_gradient(grad, args.scale, towers, self_grad)
        grad_x, grad_params, grad_bias, grad_anchor = conv_backward(
            state, params, args, scaled_grad, node_grads, anchor_needed=ctx.needs_input_grad[-2], grad=grad
        )
        return grad_x, *grad_params, grad_bias, grad_anchor, None


def _output(self_out: Tensor | None, state: ConvState, params: ConvParams, args: ConvArgs) -> Tensor:
    """The update, [N, out]."""
    if args.scale is not None or len(params.w_scaled) > 1:
        return combine(_by_scaler(state, params), self_out, args.scale, params.bias, None, None, statistics=False)[0]
    out = linear(state.saved.out.flatten(1), params.w_scaled[0], params.bias[0])
    return out if self_out is None else out.add_(self_out)


def conv_forward(x: Tensor, params: ConvParams, args: ConvArgs) -> tuple[Tensor, Tensor | None, ConvState]:
    """A convolution before its last sum: [N, T, S, out / T] and [N, out], and what the backward pass reads."""
    self_out, state = aggregate_parts(x, params, args)
    return _by_scaler(state, params), self_out, state


def _by_scaler(state: ConvState, params: ConvParams) -> Tensor:
    """The map of what was aggregated, before the sum over scalers: [N, T, S, out / T]."""
    n, towers = state.x.size(0), params.w_scaled.size(0)
    if towers == 1:  # the same with fewer views, each of which takes the host its time
        scaled_out = linear(state.saved.out.flatten(1), params.w_scaled[0])
    else:
        scaled_out = grouped_matmul(state.saved.out.view(n, towers, -1), params.w_scaled.transpose(1, 2))
    return scaled_out.view(n, towers, -1, params.bias.numel() // towers)


def aggregate_parts(x: Tensor, params: ConvParams, args: ConvArgs) -> tuple[Tensor | None, ConvState]:
    """The node's own term [N, out], and what was aggregated, with all that the backward pass reads."""
    ends = table = self_out = None
    if params.w_src_dst is not None and params.w_self is not None and params.message_bias is not None:
        with on(args.stream, x):
            if args.features is not None and params.w_edge is not None:
                table = linear(args.features, params.w_edge.flatten(0, 1))
            self_out = linear(x, params.w_self[0])
        ends = multiply(x, params.w_src_dst, params.message_bias)
        join(args.stream, self_out, table)
    kernel_args = _kernel_args(args, x, ends, table)
    saved = gpu.forward(kernel_args, params.w_scaled.size(0), unused=kernel_args.pointer)
    return self_out, ConvState(x, ends, table, saved)


def empty_node_grads(state: ConvState, params: ConvParams) -> Tensor:
    """Space for the gradients of source, target and self terms, side by side: the operands of the weight gradients."""
    n, width = state.x.shape
    return state.x.new_empty(n, width if state.ends is None else 2 * width + params.bias.numel())


def conv_backward(
    state: ConvState,
    params: ConvParams,
    args: ConvArgs,
    scaled_grad: Tensor,
    node_grads: Tensor,
    grad_residual: Tensor | None = None,
    anchor_needed: bool = True,
    grad: Tensor | None = None,
) -> tuple[Tensor, tuple[Tensor | None, ...], Tensor | None, Tensor | None]:
    """Gradients of x, to which that of a residual is added, of all parameters but the bias, the bias, and the anchor.

    ``scaled_grad`` is that of the first result of :func:`conv_forward`; that of its second stands in ``node_grads``.
    That of the bias is the sum of ``grad`` [N, out], which is also that of the second result, where it is given.
    """
    x, ends, table, saved = state
    grad_aggregated, grad_scaled = _update_grads(scaled_grad, saved.out, params.w_scaled, args)
    kernel_args = _kernel_args(args, x, ends, table)
    apart = ends is None or kernel_args.node is not None  # the node's own gradient is one of x
    extra = grad_residual if apart else None
    towers, padded = params.w_scaled.size(0), args.graph.parts.padded
    edges, node = _message_grads(kernel_args, grad_aggregated, saved, node_grads, extra, towers, padded)
    if params.w_src_dst is None or params.w_self is None:
        grad_x = node_grads if extra is None or node is not None else node_grads.add_(extra)
        with on(args.stream, node_grads if grad is None else grad):
            grad_bias = (
                None if grad is None else column_sums(grad, few_launches=args.stream is None).view_as(params.bias)
            )
        return grad_x, (None, None, None, None, grad_scaled), grad_bias, None
    others = node if apart and node is not None else grad_residual
    grad_params, grad_bias, grad_table = _param_grads(
        kernel_args, node_grads, edges, x, params, args, bias=grad is not None
    )
    both = torch.cat([params.w_src_dst, params.w_self], dim=1)[0]
    grad_x = _add_product(others, node_grads, both, in_place=others is node)
    grad_anchor = None
    if grad_table is not None and params.w_edge is not None and anchor_needed:
        if args.accumulator is None:
            join(args.stream, grad_table)
            grad_anchor = grad_table @ params.w_edge.flatten(0, 1)
        else:
            args.accumulator.add(grad_table, params.w_edge.flatten(0, 1))
            grad_anchor = x.new_empty(0)
    return grad_x, (*grad_params, grad_scaled), grad_bias, grad_anchor


def _update_grads(scaled_grad: Tensor, aggregated: Tensor, w_scaled: Tensor, args: ConvArgs) -> tuple[Tensor, Tensor]:
    """Gradients of what was aggregated, and of its map, on the side stream."""
    n, towers = aggregated.size(0), w_scaled.size(0)
    if towers == 1:
        scaled_grad, aggregated = scaled_grad.flatten(1), aggregated.flatten(1)
        with on(args.stream, scaled_grad, aggregated):
            grad_scaled = transposed_matmul(scaled_grad, aggregated)[None]
        return scaled_grad @ w_scaled[0], grad_scaled
    scaled_grad, aggregated = scaled_grad.flatten(2), aggregated.view(n, towers, -1)
    with on(args.stream, scaled_grad, aggregated):
        grad_scaled = transposed_matmul(scaled_grad, aggregated)
    return grouped_matmul(scaled_grad, w_scaled), grad_scaled


def _add_product(values: Tensor | None, x: Tensor, matrix: Tensor, in_place: bool) -> Tensor:
    """``values + x @ matrix``; in place only where nothing else reads the values."""
    if values is None:
        return x @ matrix
    return values.addmm_(x, matrix) if in_place else torch.addmm(values, x, matrix)


def _message_grads(
    kernel_args: KernelArgs,
    grad: Tensor,
    saved: SavedTensors,
    ends: Tensor,
    extra: Tensor | None,
    towers: int,
    padded: bool,
) -> tuple[Tensor, Tensor | None]:
    """Gradients of source and target, written stream by stream; returns those of edges and of the node by itself.

    Those of edges are of the messages, or, where edges have numbers, what each node adds to the rows of the table.
    """
    n, width = kernel_args.num_nodes, kernel_args.example.size(1)
    # Padding, which kernels leave out, is read only where every edge has a row of the table of its own.
    every_edge = kernel_args.table is not None and kernel_args.row is None and kernel_args.number is None
    edge = (grad.new_zeros if every_edge and padded else grad.new_empty)(kernel_args.neighbor.size(0), width)
    node = grad.new_empty(n if kernel_args.has_self else 0, width)
    number = None if kernel_args.number is None else grad.new_empty(n, kernel_args.number.size(1), width)
    target = ends[:, width : 2 * width] if kernel_args.target is not None else kernel_args.pointer  # not written
    space = edge, ends[:, :width], target, node
    gpu.backward(kernel_args, grad, saved, space, extra, towers=towers, number_grad=number)
    edges = edge if number is None else number
    if not kernel_args.has_self:
        return edges, None
    if kernel_args.node is None and kernel_args.target is not None:  # the node stands for itself by its own parts
        ends[:, : 2 * width].view(-1, 2, width).add_(node[:, None])
        return edges, None
    return edges, node


def _param_grads(
    kernel_args: KernelArgs,
    node_grads: Tensor,
    edges: Tensor,
    x: Tensor,
    params: ConvParams,
    args: ConvArgs,
    bias: bool,
) -> tuple[tuple[Tensor, Tensor, Tensor | None, Tensor], Tensor | None, Tensor | None]:
    """Gradients of the node and message maps, of the last bias if wanted, and of the table, on the side stream."""
    assert params.message_bias is not None
    width = x.size(1)
    with on(args.stream, node_grads, edges, x):
        products = transposed_matmul(node_grads, x)[None]
        grad_edge = grad_table = None
        if kernel_args.table is not None and params.w_edge is not None:
            assert args.features is not None
            grad_table = _table_grad(kernel_args, edges, args.graph)
            grad_edge = (grad_table.T @ args.features).view_as(params.w_edge)
        grad_message, grad_bias = _bias_grads(kernel_args, node_grads, grad_table, args, bias)
    grad_message = grad_message.view_as(params.message_bias)
    grad_bias = None if grad_bias is None else grad_bias.view_as(params.bias)
    return (products[:, : 2 * width], grad_message, grad_edge, products[:, 2 * width :]), grad_bias, grad_table


def _bias_grads(
    kernel_args: KernelArgs, node_grads: Tensor, grad_table: Tensor | None, args: ConvArgs, bias: bool
) -> tuple[Tensor, Tensor | None]:
    """The gradient of the bias of messages, and of the last bias if wanted: sums of columns of ``node_grads``."""
    width, few_launches = kernel_args.example.size(1), args.stream is None
    few_rows = grad_table is not None and (kernel_args.row is not None or kernel_args.number is not None)
    if grad_table is None or not few_rows or (kernel_args.has_self and kernel_args.node is None):
        sums = column_sums(node_grads[:, width:] if bias else node_grads[:, width : 2 * width], few_launches)
        return sums[:width], sums[width:] if bias else None
    # The bias is in every message, and so is the last row of edges that have numbers.
    grad_message = grad_table.sum(dim=0) if kernel_args.row is not None else grad_table[-1]
    return grad_message, column_sums(node_grads[:, 2 * width :], few_launches) if bias else None


def _table_grad(kernel_args: KernelArgs, edges: Tensor, graph: Graph) -> Tensor:
    """The gradient of the table from those of edges; of padding, which stands behind all others, only zeros."""
    assert kernel_args.table is not None
    if kernel_args.number is not None:
        return column_sums(edges.flatten(1)).view(edges.shape[1:])
    if kernel_args.row is not None:
        types, order, last = kernel_args.table.size(0), kernel_args.gradient_order, kernel_args.pointer[-1:]
        return sum_by_type(edges, kernel_args.row, types, order, last)
    return edges if kernel_args.source_order is not None else edges[graph.edge_to_source]


def _kernel_args(args: ConvArgs, x: Tensor, ends: Tensor | None, table: Tensor | None) -> KernelArgs:
    plan, graph, weights, layout = args.plan, args.graph, args.weights, args.graph.by_target
    source, target = (x, None) if ends is None else ends.chunk(2, dim=1)
    node = x if args.node_is_input and ends is not None else None
    by_edge = has_row_per_edge(source, table if args.number is None else None, args.row, graph)
    return KernelArgs(
        source, target, table, args.row if table is not None else None, node, weights.edge.contiguous(),
        weights.self.contiguous(), layout.pointer, layout.order, layout.neighbor, graph.source_pointer,
        *graph.source_places(by_edge), plan.codes, plan.columns, plan.has_self, args.save,
        number=args.number if table is not None else None,
    )  # fmt: skip


def block_diag(matrices: Tensor, row_groups: int = 1, column_groups: int = 1) -> Tensor:
    """Matrices of towers as one that keeps the towers apart: ``[T, rows, columns] -> [1, T rows, T columns]``.

    Rows and columns come in groups; inside a group of the result, tower follows tower.

    >>> block_diag(torch.tensor([[[1.0]], [[2.0]]]))
    tensor([[[1., 0.],
             [0., 2.]]])
    >>> block_diag(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]), column_groups=2)
    tensor([[[1., 0., 2., 0.],
             [0., 3., 0., 4.]]])
    """
    towers, height, length = matrices.shape
    if towers == 1:
        return matrices
    rows, columns = height // row_groups, length // column_groups
    parts = matrices.view(towers, row_groups, rows, column_groups, columns)
    joined: Tensor = _Join.apply(parts, _same_tower(towers, matrices.dtype, matrices.device))  # type: ignore[no-untyped-call]
    return joined.view(1, towers * height, towers * length)


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
