"""Sums of embedding rows on the GPU (Triton)."""

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def add_rows(rows, table, out, num_nodes, num_columns, num_channels, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr):
    """``out[n]`` = sum over k of ``table[rows[n, k]]``."""
    nodes = (tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)).to(tl.int64)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    mask = (nodes < num_nodes)[:, None] & (channels < num_channels)[None, :]
    total = tl.zeros([BLOCK_N, BLOCK_C], tl.float32)
    for k in range(num_columns):
        row = tl.load(rows + nodes * num_columns + k, mask=nodes < num_nodes, other=0)
        total += tl.load(table + row[:, None] * num_channels + channels[None, :], mask=mask, other=0.0)
    tl.store(out + nodes[:, None] * num_channels + channels[None, :], total, mask=mask)


def sum_rows(rows: Tensor, table: Tensor) -> Tensor:
    """The sum of the rows of ``table`` that each node refers to, in float32: ``[N, columns], [R, C] -> [N, C]``."""
    rows, table = rows.contiguous(), table.contiguous()
    (nodes, columns), channels = rows.shape, table.size(1)
    out, block_c = table.new_empty(nodes, channels), min(64, int(triton.next_power_of_2(channels)))
    add_rows[(triton.cdiv(nodes, 8), triton.cdiv(channels, block_c))](
        rows, table, out, nodes, columns, channels, BLOCK_N=8, BLOCK_C=block_c, num_warps=2
    )
    return out
