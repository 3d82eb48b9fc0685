"""Sums of rows on a GPU (Triton), always in the same order: of neighbouring rows, and of rows of one kind."""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK_ROWS = 64


@triton.jit
def sum_segments(values, pointer, out, num_channels, ACC: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr):
    """Sum rows ``pointer[i]`` to ``pointer[i + 1]`` of ``values`` into row i of ``out``."""
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
    tl.store(out + i * num_channels + channels, total, mask=inside)


@triton.jit
def sum_kinds(values, place, kind, out, num_rows, num_channels, kinds, ACC: tl.constexpr, HAS_PLACE: tl.constexpr,
              DOT: tl.constexpr, KINDS: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Sum the rows ``place[r]`` of ``values`` by ``kind[r]``, for each block of r apart."""
    block = tl.program_id(0)
    rows = block * BLOCK_N + tl.arange(0, BLOCK_N)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channels < num_channels
    live = rows < num_rows
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


def sum_by_kind(values: Tensor, kind: Tensor, kinds: int, place: Tensor | None = None) -> Tensor:
    """Sum rows that share a kind: ``[R, C] -> [kinds, C]``; row r is ``values[place[r]]`` where ``place`` is given."""
    values = values.contiguous()
    rows, channels = kind.size(0), values.size(1)
    blocks, block_c = max(1, triton.cdiv(rows, BLOCK_ROWS)), _block(channels)
    parts = values.new_empty(blocks, kinds, channels, dtype=torch.promote_types(values.dtype, torch.float32))
    sum_kinds[(blocks, triton.cdiv(channels, block_c))](
        values, kind if place is None else place, kind, parts, rows, channels, kinds, ACC=_accumulator(values),
        HAS_PLACE=place is not None, DOT=values.dtype == torch.float32, KINDS=max(16, triton.next_power_of_2(kinds)),
        BLOCK_N=BLOCK_ROWS, BLOCK_C=block_c,
    )  # fmt: skip
    return parts.sum(dim=0).to(values.dtype)


class SegmentSum(torch.autograd.Function):
    """Sum neighbouring rows: ``[N, C] -> [G, C]``; ``number`` [N] is the segment of each row."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, pointer: Tensor, number: Tensor) -> Tensor:
        ctx.save_for_backward(number)
        values = values.contiguous()
        segments, block_c = pointer.size(0) - 1, _block(values.size(1))
        out = values.new_empty(segments, values.size(1))
        sum_segments[(segments, triton.cdiv(values.size(1), block_c))](
            values, pointer, out, values.size(1), ACC=_accumulator(values), BLOCK_E=16, BLOCK_C=block_c
        )
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:
        (number,) = ctx.saved_tensors
        return grad.index_select(0, number), None, None


def _block(channels: int) -> int:
    return min(64, int(triton.next_power_of_2(max(channels, 16))))


def _accumulator(values: Tensor) -> Any:
    return tl.float64 if values.dtype == torch.float64 else tl.float32
