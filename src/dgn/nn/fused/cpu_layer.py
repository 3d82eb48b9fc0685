"""A layer on the CPU, as one function with its own way back: convolution, size factor, batch norm, ReLU, residual."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.aggregation import Weights
from dgn.graph import Graph
from dgn.kernels.autograd import differentiable_once
from dgn.nn.conv import DGNConv
from dgn.nn.edge_table import EdgeTable
from dgn.nn.fused.cpu_conv import LinearMaps, backward_rows, forward_rows, read_again
from dgn.nn.fused.cpu_epilogue import backward_end, forward_end, is_fused
from dgn.nn.norm import BatchNorm


class End(NamedTuple):
    """What follows the convolution."""

    norm: BatchNorm
    size: Tensor | None
    residual: bool


def is_whole(
    x: Tensor, conv: DGNConv, norm: BatchNorm, graph: Graph, weights: Weights, size: Tensor | None, real: Tensor | None
) -> bool:
    """Whether :func:`run_layer` applies: on the CPU in training, where the convolution is one function."""
    return is_fused(x, norm, size, real) and x.size(1) == conv.in_channels and conv.is_whole(x, graph, weights)


def run_layer(
    x: Tensor, conv: DGNConv, graph: Graph, weights: Weights, edge_attr: Tensor | EdgeTable | None, end: End
) -> Tensor:
    r"""A layer in training: :math:`r_i + \text{relu}(\text{norm}(s_i y_i))` of a convolution y, with r its input or 0.

    Shapes:
        ``x`` [N, in]; returns [N, out], a view of rows filled up to a multiple of 16.
    """
    maps, setting = conv.linear_maps(x, graph, weights, edge_attr)
    out: Tensor = _Layer.apply(x, *maps, end.norm.weight, end.norm.bias, setting, end)  # type: ignore[no-untyped-call]
    return out


class _Layer(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, *given: Any) -> Tensor:
        linear, setting, end = LinearMaps(*given[:7]), given[-2], given[-1]
        y, ctx.kept = forward_rows(x, linear, setting, any(ctx.needs_input_grad))
        beside = x if end.residual else None
        out, ctx.rows = forward_end(y[:, : linear.own.size(1)], end.norm, end.size, beside, relu=True)
        ctx.save_for_backward(*read_again(x, linear, setting), end.norm.bias, end.size)
        ctx.residual = end.residual
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # raises where one of them was changed in place
        of_y, gain, shift = backward_end(ctx.rows, grad)
        return *backward_rows(ctx.kept, of_y, grad if ctx.residual else None), gain, shift, None, None
