"""A whole layer in training on the GPU, as one autograd function: a fused convolution and its epilogue."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.aggregation import Weights
from dgn.graph import Graph
from dgn.kernels.aggregation import SavedTensors
from dgn.kernels.autograd import once_differentiable
from dgn.nn.conv import DGNConv
from dgn.nn.dropout import Dropout
from dgn.nn.edge_features import Edges
from dgn.nn.fused.gpu_conv import (
    ConvArgs,
    ConvParams,
    ConvState,
    conv_backward,
    conv_forward,
    empty_node_grads,
)
from dgn.nn.fused.gpu_epilogue import (
    BatchStats,
    EpilogueArgs,
    combine,
    dropout_mask,
    epilogue_args,
    norm_gradients,
    normalize,
    row_gradients,
)
from dgn.nn.fused.wgrad_stream import join, on
from dgn.nn.norm import BatchNorm


class LayerArgs(NamedTuple):
    """What a layer does not differentiate itself."""

    conv: ConvArgs
    end: EpilogueArgs
    residual: bool


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
    conv_args = ConvArgs.of(conv, graph, weights, edge_attr, x.dtype)
    with on(conv_args.stream):
        mask = dropout_mask(x.size(0), norm, dropout)
    end = epilogue_args(x.size(0), norm, graph_norm, node_mask, relu, mask, dropout.p)
    args = LayerArgs(conv_args, end, residual)
    params = ConvParams.of(conv)
    out: Tensor = _Layer.apply(x, norm.weight, norm.bias, *params, conv_args.anchor, args)  # type: ignore[no-untyped-call]
    return out


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gamma: Tensor, beta: Tensor, *inputs: Any) -> Tensor:
        *parameters, _, args = inputs
        params = ConvParams(*parameters)
        scaled_out, self_out, state = conv_forward(x.contiguous(), params, args.conv)
        if args.end.mask is not None:
            join(args.conv.stream, args.end.mask)
        y, parts = combine(scaled_out, self_out, args.conv.scale, params.bias, args.end.graph_norm, args.end.node_mask)
        out, stats = normalize(y, parts, gamma, beta, state.x if args.residual else None, args.end)
        ctx.save_for_backward(*state[:3], y, gamma, beta, *stats, *state.saved, *params)
        ctx.args = args
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, ends, table, y, gamma, beta, *rest = ctx.saved_tensors
        stats, saved, params = BatchStats(*rest[:3]), SavedTensors(*rest[3:8]), ConvParams(*rest[8:])
        state, args, grad = ConvState(x, ends, table, saved), ctx.args, grad.contiguous()
        of = norm_gradients(grad, y, stats, gamma, beta, args.end)
        towers, channels = params.w_scaled.size(0), params.bias.numel()
        scaled_grad = x.new_empty(len(x), towers, params.w_scaled.size(1)).unflatten(2, (-1, channels // towers))
        node_grads = empty_node_grads(state, params)
        self_grad = None if ends is None else node_grads[:, 2 * x.size(1) :]
        grad_residual = row_gradients(
            grad, y, stats, gamma, beta, of, args.end, args.conv.scale, scaled_grad, self_grad, args.residual
        )
        grad_x, grad_params, _, grad_anchor = conv_backward(
            state, params, args.conv, scaled_grad, node_grads, grad_residual, ctx.needs_input_grad[-2]
        )
        return grad_x, of.gamma, of.beta, *grad_params, of.bias.view_as(params.bias), grad_anchor, None
