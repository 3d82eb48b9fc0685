"""Edges sorted by target and by source on the GPU, in few launches (Triton)."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from dgn.kernels.layout import SortedEdges
from dgn.kernels.triton.launch import Launcher
from dgn.kernels.triton.sizes import ceil_div

BLOCK = 256
LOOP_BLOCK = 4096  # numbers that one program reads at once
MOST_IN_ONE_PROGRAM = 1 << 18  # numbers that one program reads faster than the host launches three operations


def sort_edges(edge_index: Tensor, num_nodes: int) -> SortedEdges:
    """Sort edges [2, E] by target and by source; equal ones keep their order."""
    edge_index = edge_index.contiguous()
    edges = edge_index.size(1)
    keys = edge_index.new_empty(2 * edges, dtype=torch.int32)
    _key_kernel()((ceil_div(2 * edges, BLOCK), 1), (edge_index, keys), edges, num_nodes)
    sorted_keys, order = keys.sort(stable=True)
    pointers = (edge_index.new_empty(num_nodes + 1, dtype=torch.int64) for _ in range(2))
    result = SortedEdges(*pointers, *(keys.new_empty(edges) for _ in range(4)))
    slots, steps = ceil_div(2 * edges, BLOCK), (2 * edges).bit_length()
    grid = slots + ceil_div(2 * num_nodes + 1, BLOCK), 1
    _order_kernel()(grid, (edge_index, sorted_keys, order, *result), edges, num_nodes, slots, steps)
    return result


def all_below(values: Tensor, bound: int) -> Tensor:
    """Whether all of some integers are from 0 to below a bound, as a tensor with one element."""
    if values.numel() > MOST_IN_ONE_PROGRAM:
        low, high = values.aminmax()
        return (low >= 0) & (high < bound)
    ok = values.new_empty(1, dtype=torch.bool)
    _range_kernel()((1, 1), (values.contiguous(), ok), values.numel(), bound)
    return ok


@cache
def _key_kernel() -> Launcher:
    return Launcher(make_keys, BLOCK=BLOCK)


@cache
def _order_kernel() -> Launcher:
    return Launcher(find_order, BLOCK=BLOCK)


@cache
def _range_kernel() -> Launcher:
    return Launcher(check_range, BLOCK=LOOP_BLOCK, num_warps=8)


@triton.jit
def check_range(values, ok, size, bound, BLOCK: tl.constexpr):
    """Whether all values are from 0 to below the bound, in one program."""
    wrong = tl.zeros([BLOCK], tl.int32)
    for start in range(0, size, BLOCK):
        places = start + tl.arange(0, BLOCK)
        value = tl.load(values + places, mask=places < size, other=0)
        wrong += ((value < 0) | (value >= bound)).to(tl.int32)
    tl.store(ok, tl.sum(wrong, axis=0) == 0)


@triton.jit
def make_keys(edge_index, keys, num_edges, num_nodes, BLOCK: tl.constexpr):
    """The target of each edge, then its source, counted on behind all targets."""
    slots = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = slots < 2 * num_edges
    is_source = slots >= num_edges
    node = tl.load(edge_index + tl.where(is_source, slots - num_edges, slots + num_edges), mask=inside, other=0)
    tl.store(keys + slots, (node + tl.where(is_source, num_nodes, 0)).to(tl.int32), mask=inside)


@triton.jit
def find_order(
    edge_index, sorted_keys, sorted_places, pointer, source_pointer, order, neighbor, source_order, edge_to_source,
    num_edges, num_nodes, num_slot_blocks, num_steps, BLOCK: tl.constexpr,
):  # fmt: skip
    """Positions of a block of slots of the sort, or the bounds of a block of nodes by bisection."""
    block = tl.program_id(0)
    if block < num_slot_blocks:
        slots = block * BLOCK + tl.arange(0, BLOCK)
        by_target, by_source = slots < num_edges, (slots >= num_edges) & (slots < 2 * num_edges)
        place = tl.load(sorted_places + slots, mask=slots < 2 * num_edges, other=0)
        tl.store(order + slots, place.to(tl.int32), mask=by_target)
        source = tl.load(edge_index + place, mask=by_target, other=0)
        tl.store(neighbor + slots, source.to(tl.int32), mask=by_target)
        edge, slot = place - num_edges, slots - num_edges
        tl.store(source_order + slot, edge.to(tl.int32), mask=by_source)
        tl.store(edge_to_source + edge, slot, mask=by_source)
    else:
        nodes = (block - num_slot_blocks) * BLOCK + tl.arange(0, BLOCK)
        low, high = tl.zeros([BLOCK], tl.int32), tl.zeros([BLOCK], tl.int32) + 2 * num_edges
        for _ in range(num_steps):  # the first slot whose key is at least the node
            middle = (low + high) // 2
            open_ = low < high
            below = tl.load(sorted_keys + middle, mask=open_, other=0) < nodes
            low, high = tl.where(open_ & below, middle + 1, low), tl.where(open_ & (~below), middle, high)
        tl.store(pointer + nodes, low.to(tl.int64), mask=nodes <= num_nodes)
        is_source = (nodes >= num_nodes) & (nodes <= 2 * num_nodes)
        tl.store(source_pointer + nodes - num_nodes, (low - num_edges).to(tl.int64), mask=is_source)
