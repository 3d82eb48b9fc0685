"""Node features as they are, aggregated on the GPU with their gradient, in few steps of the host."""

from typing import Any

import torch
from torch import Tensor

from dgn.aggregation.messages import Messages
from dgn.aggregation.plan import Plan, Weights
from dgn.graph import Graph
from dgn.kernels.aggregation import SavedTensors
from dgn.kernels.autograd import once_differentiable


def are_learned_features(messages: Messages, weights: Weights) -> bool:
    """Whether messages are float32 features of nodes, which alone need a gradient, in eager mode."""
    source, *others = messages
    if source is None or any(part is not None for part in others):
        return False
    if source.dtype != torch.float32 or source.numel() == 0 or torch.compiler.is_compiling():
        return False
    learned = weights.edge.requires_grad or weights.self.requires_grad
    return source.requires_grad and not learned and torch.is_grad_enabled()


def aggregate_features(plan: Plan, messages: Messages, weights: Weights, graph: Graph) -> Tensor:
    """:func:`dgn.aggregation.aggregate` by launches that are prepared once, for a GPU that waits for the host."""
    from dgn.kernels.triton.aggregate import aggregation_of_sources

    assert messages.source is not None
    x, weights = messages.source.contiguous(), Weights(weights.edge.contiguous(), weights.self.contiguous())
    kernels = aggregation_of_sources(plan.codes, plan.columns, plan.has_self, x, weights.edge)
    out: Tensor = _AggregateFeatures.apply(x, weights, graph, kernels)  # type: ignore[no-untyped-call]
    return out


class _AggregateFeatures(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weights: Weights, graph: Graph, kernels: Any) -> Tensor:
        saved = kernels.forward(x, weights, graph.by_target)
        ctx.save_for_backward(x, *saved)
        ctx.rest = weights, graph, kernels
        out: Tensor = saved.out
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        (x, *saved), (weights, graph, kernels) = ctx.saved_tensors, ctx.rest
        places = graph.source_pointer, *graph.source_places(by_edge=False)
        grad_x = kernels.backward(grad.contiguous(), x, weights, graph.by_target, *places, SavedTensors(*saved))
        return grad_x, None, None, None
