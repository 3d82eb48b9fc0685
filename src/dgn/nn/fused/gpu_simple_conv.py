"""A convolution of simple messages by one tower and one scaler, as layers are by default, in few steps of the host."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from dgn.aggregation import Weights
from dgn.graph import Graph
from dgn.kernels.aggregation import SavedTensors
from dgn.kernels.autograd import once_differentiable
from dgn.kernels.triton.aggregate import SourceAggregation, aggregation_of_sources
from dgn.nn.conv import DGNConv
from dgn.nn.fused.wgrad_stream import current_wgrad_stream
from dgn.nn.linear import column_sums, transposed_matmul


def is_simple(conv: DGNConv) -> bool:
    """Whether :func:`simple_conv` computes a convolution: it has no stream for the gradients of parameters."""
    plain = conv.message is None and conv.towers == 1 and conv.scalers == ("identity",)
    return plain and torch.is_grad_enabled() and current_wgrad_stream() is None


def simple_conv(x: Tensor, conv: DGNConv, graph: Graph, weights: Weights) -> Tensor:
    """:func:`dgn.nn.fused.gpu_conv.fused_conv` without edge features, to be differentiated: [N, in] -> [N, out]."""
    plan = conv.plan
    kernels = aggregation_of_sources(plan.codes, plan.columns, plan.has_self, x, weights.edge)
    out: Tensor = _SimpleConv.apply(x, conv.update.scaled, conv.update.bias, graph, weights, kernels)  # type: ignore[no-untyped-call]
    return out


class _SimpleConv(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, matrix: Tensor, bias: Tensor, graph: Graph, weights: Weights, kernels: SourceAggregation
    ) -> Tensor:
        x = x.contiguous()
        weights = Weights(weights.edge.contiguous(), weights.self.contiguous())
        saved = kernels.forward(x, weights, graph.by_target)
        ctx.save_for_backward(x, matrix, *saved)
        ctx.rest = graph, weights, kernels
        return linear(saved.out.flatten(1), matrix[0], bias[0])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, matrix, *rest = ctx.saved_tensors
        saved, (graph, weights, kernels) = SavedTensors(*rest), ctx.rest
        grad = grad.contiguous()
        grad_matrix = transposed_matmul(grad, saved.out.flatten(1))[None]
        grad_bias = column_sums(grad, few_launches=True)[None]
        grad_x = None
        if ctx.needs_input_grad[0]:
            places = graph.source_pointer, *graph.source_places(by_edge=False)
            grad_x = kernels.backward(grad @ matrix[0], x, weights, graph.by_target, *places, saved)
        return grad_x, grad_matrix, grad_bias, None, None, None
