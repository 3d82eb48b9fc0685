"""Weights of directional sums and degree scalers on the GPU, one launch each (Triton)."""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor

from dgn.kernels.triton.launch import Launcher
from dgn.kernels.triton.layout import LOOP_BLOCK, MOST_IN_ONE_PROGRAM
from dgn.kernels.triton.sizes import ceil_div, power_of_2

BLOCK_E, BLOCK_N = 8, 256
SMALLEST = tl.constexpr(1e-8)  # of the largest component of a direction: up to it, components count as 0
IDENTITY, AMPLIFICATION = tl.constexpr(0), tl.constexpr(1)


Column = tuple[int, bool]  # of weights: along which column of the field, and whether it is a derivative


def largest_component(field: Tensor) -> tuple[Tensor, Tensor]:
    """The largest magnitude of each column of a field [E, K], and whether all are finite, one element each way."""
    if field.numel() > MOST_IN_ONE_PROGRAM:
        largest = field.abs().amax(dim=0)
        return largest, (largest < torch.inf).all()
    largest, finite = field.new_empty(field.size(1)), field.new_empty(1, dtype=torch.bool)
    block_k = power_of_2(field.size(1))
    _largest_kernel(max(1, LOOP_BLOCK // block_k), block_k)((1, 1), (field, largest, finite), *field.shape)
    return largest, finite


def compute(
    field: Tensor, largest: Tensor, columns: tuple[Column, ...], pointer: Tensor, order: Tensor
) -> tuple[Tensor, Tensor]:
    r"""Edge weights [E, W] sorted by target, and self weights [N, W], of :math:`B_{av}` and :math:`B_{dx}` (eq. 5, 6).

    ``field`` [E, K] is contiguous, in the order of ``edge_index``; ``largest`` [K] is that of
    :func:`largest_component`.
    """
    nodes, width = pointer.size(0) - 1, len(columns)
    edge, own = field.new_empty(field.size(0), width), field.new_empty(nodes, width)
    launch = _weight_kernel(columns, field.dtype)
    launch((nodes, 1), (field, largest, pointer, order, edge, own), field.size(1))
    return edge, own


def degree_scalers(pointer: Tensor, codes: tuple[int, ...], delta: float) -> Tensor:
    """Degree scalers [N, S] in float32: identity (0), amplification (1) and attenuation (2) of in-degrees (eq. 11)."""
    nodes = pointer.size(0) - 1
    out = torch.empty(nodes, len(codes), dtype=torch.float32, device=pointer.device)
    _scaler_kernel(codes)((ceil_div(nodes, BLOCK_N), 1), (pointer, out), nodes, float(delta))
    return out


@cache
def _largest_kernel(block_e: int, block_k: int) -> Launcher:
    return Launcher(find_largest, BLOCK_E=block_e, BLOCK_K=block_k, num_warps=8)


@cache
def _weight_kernel(columns: tuple[Column, ...], dtype: torch.dtype) -> Launcher:
    directions, kinds = zip(*columns, strict=True)
    accumulator = tl.float64 if dtype == torch.float64 else tl.float32
    return Launcher(
        weigh_edges, DIRECTIONS=directions, DERIVATIVE=kinds, W=len(columns), ACC=accumulator, BLOCK_E=BLOCK_E,
        num_warps=1,
    )  # fmt: skip


@cache
def _scaler_kernel(codes: tuple[int, ...]) -> Launcher:
    return Launcher(scale_degrees, CODES=codes, S=len(codes), BLOCK_N=BLOCK_N)


@triton.jit
def find_largest(field, largest, finite, num_edges, num_columns, BLOCK_E: tl.constexpr, BLOCK_K: tl.constexpr):
    """The largest magnitude of each column, and whether all are finite, in one program."""
    columns = tl.arange(0, BLOCK_K)
    inside = columns < num_columns
    top, wrong = tl.zeros([BLOCK_E, BLOCK_K], field.dtype.element_ty), tl.zeros([BLOCK_E, BLOCK_K], tl.int32)
    for start in range(0, num_edges, BLOCK_E):
        edges = start + tl.arange(0, BLOCK_E)
        mask = (edges < num_edges)[:, None] & inside[None, :]
        size = tl.abs(tl.load(field + edges[:, None] * num_columns + columns[None, :], mask=mask, other=0.0))
        top = tl.maximum(top, size)
        wrong += ((size < float("inf")) == 0).to(tl.int32)
    tl.store(largest + columns, tl.max(top, axis=0), mask=inside)
    tl.store(finite, tl.sum(tl.sum(wrong, axis=0), axis=0) == 0)


@triton.jit
def load_component(field, order, edges, live, largest, num_columns, direction, ACC: tl.constexpr):
    """A column of the field on some edges in units of its largest component; noise is 0."""
    edge = tl.load(order + edges, mask=live, other=0).to(tl.int64)
    value = tl.load(field + edge * num_columns + direction, mask=live, other=0.0).to(ACC)
    return tl.where(tl.abs(value) <= largest * SMALLEST, 0.0, value / tl.where(largest == 0, 1.0, largest))


@triton.jit
def weigh_edges(
    field, largest_in, pointer, order, edge_weight, self_weight, num_columns, DIRECTIONS: tl.constexpr,
    DERIVATIVE: tl.constexpr, W: tl.constexpr, ACC: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    """Weights of the edges to one node, and of the node itself."""
    i = tl.program_id(0).to(tl.int64)
    begin, end = tl.load(pointer + i), tl.load(pointer + i + 1)
    for column in tl.static_range(W):
        largest = tl.load(largest_in + DIRECTIONS[column]).to(ACC)
        norm = tl.zeros([BLOCK_E], ACC)
        for start in range(begin, end, BLOCK_E):
            edges = start + tl.arange(0, BLOCK_E)
            part = load_component(field, order, edges, edges < end, largest, num_columns, DIRECTIONS[column], ACC)
            norm += tl.abs(part)
        total = tl.sum(norm, axis=0)
        total = tl.where(total == 0, 1.0, total)
        own = tl.zeros([BLOCK_E], ACC)
        for start in range(begin, end, BLOCK_E):
            edges = start + tl.arange(0, BLOCK_E)
            part = load_component(field, order, edges, edges < end, largest, num_columns, DIRECTIONS[column], ACC)
            weight = part / total
            if DERIVATIVE[column]:
                own -= weight
            else:
                weight = tl.abs(weight)
            tl.store(edge_weight + edges * W + column, weight, mask=edges < end)
        tl.store(self_weight + i * W + column, tl.sum(own, axis=0))


@triton.jit
def scale_degrees(pointer, out, num_nodes, delta, CODES: tl.constexpr, S: tl.constexpr, BLOCK_N: tl.constexpr):
    """The scalers of a block of nodes."""
    nodes = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = nodes < num_nodes
    begin, end = tl.load(pointer + nodes, mask=inside, other=0), tl.load(pointer + nodes + 1, mask=inside, other=0)
    degree = (end - begin).to(tl.float32)
    amplification = tl.log(degree + 1.0) / delta
    for s in tl.static_range(S):
        value = tl.zeros([BLOCK_N], tl.float32) + 1.0
        if CODES[s] == AMPLIFICATION:
            value = amplification
        elif CODES[s] != IDENTITY:
            value = tl.where(degree > 0, 1.0 / tl.where(degree > 0, amplification, 1.0), 1.0)
        tl.store(out + nodes.to(tl.int64) * S + s, value, mask=inside)
