"""Reference implementation of aggregation in plain PyTorch: any device, any dtype, differentiable."""

from collections.abc import Callable

import torch
from torch import Tensor

from dgn.aggregation.messages import Messages
from dgn.aggregation.plan import Plan, Weights
from dgn.graph import Graph, gather_rows
from dgn.kernels.aggregation import SMALLEST_VARIANCE, Code


def aggregate_reference(plan: Plan, messages: Messages, weights: Weights, graph: Graph) -> Tensor:
    """The sums ``[N, sums, C]`` of a plan, with every message materialised; see :func:`dgn.aggregation.aggregate`."""
    m = messages.build(graph)
    target = gather_rows(graph.target, graph.by_target.order)
    degree = graph.in_degree.clamp(min=1).to(m.dtype)[:, None]
    edge, node = weights.edge.to(m.dtype), weights.self.to(m.dtype)
    total = graph.sum_sorted

    def variance() -> Tensor:
        mean = total(m) / degree
        return total((m - gather_rows(mean, target)).square()) / degree

    def directional(column: int) -> Tensor:
        along = total(m * edge[:, column, None])
        return along + node[:, column, None] * messages.of_node() if plan.has_self else along

    outputs: dict[Code, Callable[[int], Tensor]] = {
        Code.SUM: lambda _: total(m),
        Code.MEAN: lambda _: total(m) / degree,
        Code.MAX: lambda _: _extreme(m, target, graph.num_nodes),
        Code.MIN: lambda _: 0 - _extreme(-m, target, graph.num_nodes),
        Code.VAR: lambda _: variance(),
        Code.STD: lambda _: _root(variance()),
        Code.SIGNED: directional,
        Code.ABSOLUTE: lambda column: directional(column).abs(),
    }
    columns = [outputs[Code(code)](column) for code, column in zip(plan.codes, plan.columns, strict=True)]
    return torch.stack(columns, dim=1)


def _extreme(m: Tensor, target: Tensor, num_nodes: int) -> Tensor:
    """The largest message per node and channel, NaN above all, 0 for none; the first of equals gets the gradient."""
    index = target[:, None].expand_as(m)
    largest = m.new_full((num_nodes, m.size(1)), -torch.inf).scatter_reduce(0, index, m.detach(), reduce="amax")
    edges = m.size(0)
    slot = torch.arange(edges, device=m.device)[:, None].expand_as(m)
    slot = torch.where((m.detach() == largest[target]) | m.isnan(), slot, edges)
    first = slot.new_full(largest.shape, edges).scatter_reduce(0, index, slot, reduce="amin")
    padded = torch.cat([m, m.new_zeros(1, m.size(1))])  # the last row is that of nodes without neighbours
    return padded.gather(0, first)


def _root(variance: Tensor) -> Tensor:
    positive = ~(variance <= SMALLEST_VARIANCE)  # propagates NaN
    return torch.where(positive, torch.where(positive, variance, 1.0).sqrt(), 0.0)
