"""Sorted edges as a custom operator: one call where torch.compile would launch two sorts and what follows them."""

import torch
from torch import Tensor

from dgn.graph.graph import group_edges, invert, sorts_at_once
from dgn.kernels.custom_op import register
from dgn.kernels.layout import SortedEdges


def run(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    if sorts_at_once(edge_index, num_nodes):
        from dgn.kernels.triton.layout import sort_edges

        return sort_edges(edge_index, num_nodes)
    source, target = edge_index
    by_target, by_source = group_edges(target, source, num_nodes), group_edges(source, target, num_nodes)
    positions = by_target.order, by_target.neighbor, by_source.order, invert(by_source.order)
    return SortedEdges(by_target.pointer, by_source.pointer, *(position.int() for position in positions))


def _empty(edge_index: Tensor, num_nodes: int) -> tuple[Tensor, ...]:
    pointers = (edge_index.new_empty(num_nodes + 1, dtype=torch.int64) for _ in range(2))
    return (*pointers, *(edge_index.new_empty(edge_index.size(1), dtype=torch.int32) for _ in range(4)))


register("dgn::sort_edges", run, _empty)
