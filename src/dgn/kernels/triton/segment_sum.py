"""Sums of consecutive rows and of rows of one type on the GPU (Triton), in a fixed order."""

from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dgn.kernels.autograd import once_differentiable
from dgn.kernels.triton.launch import Launcher
from dgn.kernels.triton.sizes import ceil_div, power_of_2

BLOCK_ROWS = 64


@triton.jit
def sum_segments(values, pointer, order, extra, out, num_channels, out_stride, MEAN: tl.constexpr,
                 HAS_ORDER: tl.constexpr, HAS_EXTRA: tl.constexpr, ACC: tl.constexpr, BLOCK_E: tl.constexpr,
                 BLOCK_C: tl.constexpr):  # fmt: skip
    """Sum rows ``pointer[i]`` to ``pointer[i + 1]`` of ``values`` into row i of ``out``, or average them.

    With ``order``, they are the rows ``order[pointer[i]]`` and on; row i of ``extra`` is added.
    """
    i = tl.program_id(0).to(tl.int64)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channels < num_channels
    begin, end = tl.load(pointer + i), tl.load(pointer + i + 1)
    total = tl.zeros([BLOCK_C], ACC)
    for start in range(begin, end, BLOCK_E):
        slots = start + tl.arange(0, BLOCK_E)
        rows = slots
        if HAS_ORDER:
            rows = tl.load(order + slots, mask=slots < end, other=0)
        mask = (slots < end)[:, None] & inside[None, :]
        address = values + rows.to(tl.int64)[:, None] * num_channels + channels[None, :]
        total += tl.sum(tl.load(address, mask=mask, other=0.0).to(ACC), axis=0)
    if MEAN:
        total /= tl.maximum(end - begin, 1).to(ACC)
    if HAS_EXTRA:
        total += tl.load(extra + i * num_channels + channels, mask=inside, other=0.0).to(ACC)
    tl.store(out + i * out_stride + channels, total, mask=inside)


@triton.jit
def spread_segments(grad, pointer, segment, out, num_rows, num_channels, MEAN: tl.constexpr, BLOCK_N: tl.constexpr,
                    BLOCK_C: tl.constexpr):  # fmt: skip
    """The backward pass of ``sum_segments``: each row gets the gradient of its segment."""
    rows = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (rows < num_rows)[:, None] & (channels < num_channels)[None, :]
    segments = tl.load(segment + rows, mask=rows < num_rows, other=0).to(tl.int64)
    value = tl.load(grad + segments[:, None] * num_channels + channels[None, :], mask=mask, other=0.0)
    if MEAN:
        size = tl.load(pointer + segments + 1) - tl.load(pointer + segments)
        value = value / tl.maximum(size, 1).to(value.dtype)[:, None]
    tl.store(out + rows[:, None] * num_channels + channels[None, :], value, mask=mask)


@triton.jit
def sum_types(values, place, row_type, num_live, out, num_rows, num_channels, num_types, ACC: tl.constexpr,
              HAS_PLACE: tl.constexpr, HAS_LIVE: tl.constexpr, DOT: tl.constexpr, NUM_TYPES: tl.constexpr,
              BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Sum the rows ``place[r]`` of ``values`` by ``row_type[r]``, one partial sum per block of r."""
    block = tl.program_id(0).to(tl.int64)  # with 32 types, half as many sums as elements of values
    rows = block * BLOCK_N + tl.arange(0, BLOCK_N)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channels < num_channels
    live = rows < num_rows
    if HAS_LIVE:
        live = live & (rows < tl.load(num_live))
    at = rows.to(tl.int64)
    if HAS_PLACE:
        at = tl.load(place + rows, mask=live, other=0).to(tl.int64)
    type_of_row = tl.load(row_type + rows, mask=live, other=-1).to(tl.int32)
    mask = live[:, None] & inside[None, :]
    value = tl.load(values + at[:, None] * num_channels + channels[None, :], mask=mask, other=0.0).to(ACC)
    if DOT:
        types = tl.arange(0, NUM_TYPES)
        one_hot = (types[:, None] == type_of_row[None, :]).to(tl.float32)
        total = tl.dot(one_hot, value.to(tl.float32), input_precision="ieee")
        to = out + (block * num_types + types)[:, None] * num_channels + channels[None, :]
        tl.store(to, total, mask=(types < num_types)[:, None] & inside[None, :])
    else:
        for k in range(num_types):
            total = tl.sum(tl.where((type_of_row == k)[:, None], value, 0.0), axis=0)
            tl.store(out + (block * num_types + k) * num_channels + channels, total, mask=inside)


@triton.jit
def add_parts(parts, out, num_parts, size, BLOCK_P: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of a few rows, for one block of columns."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, num_parts, BLOCK_P):
        rows = start + tl.arange(0, BLOCK_P)
        mask = (rows < num_parts)[:, None] & (columns < size)[None, :]
        address = parts + rows.to(tl.int64)[:, None] * size + columns[None, :]
        total += tl.sum(tl.load(address, mask=mask, other=0.0), axis=0)
    tl.store(out + columns, total, mask=columns < size)


def sum_by_type(
    values: Tensor, row_type: Tensor, num_types: int, place: Tensor | None = None, num_live: Tensor | None = None
) -> Tensor:
    """Sums of the rows of each type: ``[R, C] -> [T, C]``; row r is ``values[place[r]]`` where ``place`` is given.

    ``num_live``, a scalar tensor on the device, is the number of leading rows that count.
    """
    values = values.contiguous()
    rows, channels = row_type.size(0), values.size(1)
    blocks, block_c = max(1, ceil_div(rows, BLOCK_ROWS)), _block(channels)
    parts = values.new_empty(blocks, num_types, channels, dtype=torch.promote_types(values.dtype, torch.float32))
    launch = _type_kernel(
        values.dtype, place is not None, num_live is not None, max(16, power_of_2(num_types)), block_c
    )
    tensors = values, row_type if place is None else place, row_type, row_type if num_live is None else num_live, parts
    launch((blocks, ceil_div(channels, block_c)), tensors, rows, channels, num_types)
    return _sum_partial(parts).to(values.dtype)


@cache
def _type_kernel(dtype: torch.dtype, has_place: bool, has_live: bool, num_types: int, block_c: int) -> Launcher:
    return Launcher(
        sum_types, ACC=tl.float64 if dtype == torch.float64 else tl.float32, HAS_PLACE=has_place, HAS_LIVE=has_live,
        DOT=dtype == torch.float32, NUM_TYPES=num_types, BLOCK_N=BLOCK_ROWS, BLOCK_C=block_c,
    )  # fmt: skip


def _sum_partial(parts: Tensor) -> Tensor:
    """The sum of all parts: ``[P, K, C] -> [K, C]``."""
    return parts.sum(dim=0) if parts.dtype == torch.float64 else sum_parts(parts.flatten(1)).view(parts.shape[1:])


def sum_parts(parts: Tensor) -> Tensor:
    """The sum of rows in float32: ``[P, C] -> [C]``."""
    out = parts.new_empty(parts.size(1))
    _part_kernel()((ceil_div(len(out), 128), 1), (parts, out), len(parts), len(out))
    return out


@cache
def _part_kernel() -> Launcher:
    return Launcher(add_parts, BLOCK_P=32, BLOCK=128)


class SegmentSum(torch.autograd.Function):
    """Sums or means of consecutive rows: ``[N, C] -> [G, C]``; ``segment`` [N] is the segment of each row."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, pointer: Tensor, segment: Tensor, mean: bool) -> Tensor:
        ctx.save_for_backward(pointer, segment)
        ctx.mean = mean
        values = values.contiguous()
        segments, block_c = pointer.size(0) - 1, _block(values.size(1))
        out = values.new_empty(segments, values.size(1))
        sum_segments[(segments, ceil_div(values.size(1), block_c))](
            # Segments of padding are long.
            values, pointer, pointer, values, out, values.size(1), values.size(1), MEAN=mean, HAS_ORDER=False,
            HAS_EXTRA=False, ACC=_accumulator(values), BLOCK_E=64, BLOCK_C=block_c,
        )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        pointer, segment = ctx.saved_tensors
        grad = grad.contiguous()
        rows, channels = segment.size(0), grad.size(1)
        out, block_c = grad.new_empty(rows, channels), _block(channels)
        spread_segments[(ceil_div(rows, 16), ceil_div(channels, block_c))](
            grad, pointer, segment, out, rows, channels, MEAN=ctx.mean, BLOCK_N=16, BLOCK_C=block_c
        )
        return out, None, None, None


def _block(channels: int) -> int:
    return min(64, power_of_2(max(channels, 16)))


def _accumulator(values: Tensor) -> Any:
    return tl.float64 if values.dtype == torch.float64 else tl.float32
