"""Sums of rows on a GPU (Triton), always in the same order: of neighbouring ones, of those of one kind."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from dgn.kernels.autograd import once_differentiable

BLOCK_ROWS = 64


@triton.jit
def sum_segments(values, pointer, out, num_channels, out_stride, MEAN: tl.constexpr, ACC: tl.constexpr,
                 BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Sum rows ``pointer[i]`` to ``pointer[i + 1]`` of ``values`` into row i of ``out``, or average them."""
    i = tl.program_id(0).to(tl.int64)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channels < num_channels
    begin, end = tl.load(pointer + i), tl.load(pointer + i + 1)
    total = tl.zeros([BLOCK_C], ACC)
    for start in range(begin, end, BLOCK_E):
        slots = start + tl.arange(0, BLOCK_E)
        mask = (slots < end)[:, None] & inside[None, :]
        address = values + slots.to(tl.int64)[:, None] * num_channels + channels[None, :]
        total += tl.sum(tl.load(address, mask=mask, other=0.0).to(ACC), axis=0)
    if MEAN:
        total /= tl.maximum(end - begin, 1).to(ACC)
    tl.store(out + i * out_stride + channels, total, mask=inside)


@triton.jit
def spread_segments(grad, pointer, number, out, num_rows, num_channels, MEAN: tl.constexpr, BLOCK_N: tl.constexpr,
                    BLOCK_C: tl.constexpr):  # fmt: skip
    """The gradient of ``sum_segments``: each row gets that of its segment."""
    rows = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (rows < num_rows)[:, None] & (channels < num_channels)[None, :]
    segment = tl.load(number + rows, mask=rows < num_rows, other=0).to(tl.int64)
    value = tl.load(grad + segment[:, None] * num_channels + channels[None, :], mask=mask, other=0.0)
    if MEAN:
        size = tl.load(pointer + segment + 1) - tl.load(pointer + segment)
        value = value / tl.maximum(size, 1).to(value.dtype)[:, None]
    tl.store(out + rows[:, None] * num_channels + channels[None, :], value, mask=mask)


@triton.jit
def sum_types(values, place, kind, last, out, num_rows, num_channels, kinds, ACC: tl.constexpr,
              HAS_PLACE: tl.constexpr, HAS_LAST: tl.constexpr, DOT: tl.constexpr, KINDS: tl.constexpr,
              BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Sum the rows ``place[r]`` of ``values`` by ``kind[r]``, for each block of r apart."""
    block = tl.program_id(0).to(tl.int64)  # there are half as many sums as numbers in values, where kinds are 32
    rows = block * BLOCK_N + tl.arange(0, BLOCK_N)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channels < num_channels
    live = rows < num_rows
    if HAS_LAST:
        live = live & (rows < tl.load(last))
    at = rows.to(tl.int64)
    if HAS_PLACE:
        at = tl.load(place + rows, mask=live, other=0).to(tl.int64)
    which = tl.load(kind + rows, mask=live, other=-1).to(tl.int32)
    mask = live[:, None] & inside[None, :]
    value = tl.load(values + at[:, None] * num_channels + channels[None, :], mask=mask, other=0.0).to(ACC)
    if DOT:
        kind_numbers = tl.arange(0, KINDS)
        named = (kind_numbers[:, None] == which[None, :]).to(tl.float32)
        total = tl.dot(named, value.to(tl.float32), input_precision="ieee")
        to = out + (block * kinds + kind_numbers)[:, None] * num_channels + channels[None, :]
        tl.store(to, total, mask=(kind_numbers < kinds)[:, None] & inside[None, :])
    else:
        for k in range(kinds):
            total = tl.sum(tl.where((which == k)[:, None], value, 0.0), axis=0)
            tl.store(out + (block * kinds + k) * num_channels + channels, total, mask=inside)


@triton.jit
def add_parts(parts, out, num_parts, size, BLOCK_P: tl.constexpr, BLOCK: tl.constexpr):
    """The sum of few rows, a block of columns at a time."""
    columns = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for start in range(0, num_parts, BLOCK_P):
        rows = start + tl.arange(0, BLOCK_P)
        mask = (rows < num_parts)[:, None] & (columns < size)[None, :]
        address = parts + rows.to(tl.int64)[:, None] * size + columns[None, :]
        total += tl.sum(tl.load(address, mask=mask, other=0.0), axis=0)
    tl.store(out + columns, total, mask=columns < size)


def sum_by_type(
    values: Tensor, kind: Tensor, kinds: int, place: Tensor | None = None, last: Tensor | None = None
) -> Tensor:
    """Sum rows that share a kind: ``[R, C] -> [kinds, C]``; row r is ``values[place[r]]`` where ``place`` is given.

    ``last``, one number on the device, says how many of the rows count.
    """
    values = values.contiguous()
    rows, channels = kind.size(0), values.size(1)
    blocks, block_c = max(1, triton.cdiv(rows, BLOCK_ROWS)), _block(channels)
    parts = values.new_empty(blocks, kinds, channels, dtype=torch.promote_types(values.dtype, torch.float32))
    sum_types[(blocks, triton.cdiv(channels, block_c))](
        values, kind if place is None else place, kind, kind if last is None else last, parts, rows, channels, kinds,
        ACC=_accumulator(values), HAS_PLACE=place is not None, HAS_LAST=last is not None,
        DOT=values.dtype == torch.float32, KINDS=max(16, triton.next_power_of_2(kinds)),
        BLOCK_N=BLOCK_ROWS, BLOCK_C=block_c,
    )  # fmt: skip
    return _whole(parts).to(values.dtype)


def _whole(parts: Tensor) -> Tensor:
    """The sum of all parts: ``[P, K, C] -> [K, C]``."""
    return parts.sum(dim=0) if parts.dtype == torch.float64 else sum_parts(parts.flatten(1)).view(parts.shape[1:])


def sum_parts(parts: Tensor) -> Tensor:
    """Sum rows in single precision: ``[P, C] -> [C]``."""
    out = parts.new_empty(parts.size(1))
    add_parts[(triton.cdiv(len(out), 128),)](parts, out, len(parts), len(out), BLOCK_P=32, BLOCK=128)
    return out


class SegmentSum(torch.autograd.Function):
    """Sum neighbouring rows, or average them: ``[N, C] -> [G, C]``; ``number`` [N] is the segment of each row."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, pointer: Tensor, number: Tensor, mean: bool) -> Tensor:
        ctx.save_for_backward(pointer, number)
        ctx.mean = mean
        values = values.contiguous()
        segments, block_c = pointer.size(0) - 1, _block(values.size(1))
        out = values.new_empty(segments, values.size(1))
        sum_segments[(segments, triton.cdiv(values.size(1), block_c))](
            # Segments of padding are long.
            values, pointer, out, values.size(1), values.size(1), MEAN=mean, ACC=_accumulator(values), BLOCK_E=64,
            BLOCK_C=block_c,
        )  # fmt: skip
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None, None]:
        pointer, number = ctx.saved_tensors
        grad = grad.contiguous()
        rows, channels = number.size(0), grad.size(1)
        out, block_c = grad.new_empty(rows, channels), _block(channels)
        spread_segments[(triton.cdiv(rows, 16), triton.cdiv(channels, block_c))](
            grad, pointer, number, out, rows, channels, MEAN=ctx.mean, BLOCK_N=16, BLOCK_C=block_c
        )
        return out, None, None, None


def _block(channels: int) -> int:
    return min(64, int(triton.next_power_of_2(max(channels, 16))))


def _accumulator(values: Tensor) -> Any:
    return tl.float64 if values.dtype == torch.float64 else tl.float32
