"""Products of many rows with small matrices on the GPU (Triton).

Three products of split operands (``tf32x3``) are about as exact as float32. Loop bodies are short: unrolled code is
fetched again at every launch, which takes longer than to run it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from dgn.kernels.triton.segment_sum import sum_parts

# Measured on an H200 with widths of 45 and 90.
PRODUCT = {"BLOCK_N": 32, "BLOCK_M": 64, "BLOCK_K": 16, "num_stages": 2}
SUM = {"BLOCK_N": 16, "BLOCK_M": 32, "num_stages": 2}
ROWS_PER_PART, MOST_PARTS = 64, 64  # of the partial sums over rows


def precision() -> str:
    """The precision of products: that of float32, unless ``torch.set_float32_matmul_precision`` allows less."""
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def multiply(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """``x @ matrix``, with a bias on the last columns.

    Shapes:
        ``x`` [N, K], ``matrix`` [K, M] with any strides, ``bias`` [B] for the last B columns; returns [N, M].
    """
    (inner, columns), rows = matrix.shape, x.size(0)
    out = x.new_empty(rows, columns)
    multiply_rows[(triton.cdiv(rows, PRODUCT["BLOCK_N"]), triton.cdiv(columns, PRODUCT["BLOCK_M"]))](
        x, matrix, bias, out, rows, columns, inner, x.stride(0), *matrix.stride(), columns - bias.numel(),
        PRECISION=precision(), **PRODUCT,
    )  # fmt: skip
    return out


class Pair(NamedTuple):
    """Operands of a product summed over rows: ``left.T @ right`` [L, R], and the column sums of ``left`` [L].

    Shapes:
        ``left`` [N, L] and ``right`` [N, R], with any row stride.
    """

    left: Tensor
    right: Tensor


def sum_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """The products and column sums of several pairs over the same rows; partial sums are added in a fixed order."""
    rows = pairs[0].left.size(0)
    per_part = ROWS_PER_PART * triton.cdiv(rows, ROWS_PER_PART * MOST_PARTS)
    shapes = [(pair.left.size(1), pair.right.size(1)) for pair in pairs]
    sizes = [left * (right + 1) for left, right in shapes]
    space = pairs[0].left.new_empty(triton.cdiv(rows, per_part), sum(sizes))
    for (left, right), part in zip(pairs, torch.split(space, sizes, dim=1), strict=True):
        grid = len(space), *(triton.cdiv(t.size(1), SUM["BLOCK_M"]) for t in (left, right))
        sum_products[grid](
            left, right, part, rows, left.size(1), right.size(1), left.stride(0), right.stride(0), per_part,
            part.stride(0), PRECISION=precision(), **SUM,
        )  # fmt: skip
    total, results = sum_parts(space), []
    for (left_size, right_size), flat in zip(shapes, torch.split(total, sizes), strict=True):
        product, sums = torch.split(flat, [left_size * right_size, left_size])
        results.append(Pair(product.view(left_size, right_size), sums))
    return results


@triton.jit
def load_tile(values, rows, columns, row_stride, column_stride, num_rows, num_columns):
    mask = (rows < num_rows)[:, None] & (columns < num_columns)[None, :]
    address = values + rows.to(tl.int64)[:, None] * row_stride + columns[None, :] * column_stride
    return tl.load(address, mask=mask, other=0.0)


@triton.jit
def add_product(total, x, matrix, rows, columns, num_rows, num_columns, inner, x_stride, inner_stride, column_stride,
                PRECISION: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """``total + x @ matrix`` for one tile."""
    for start in range(0, inner, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        left = load_tile(x, rows, k, x_stride, 1, num_rows, inner)
        right = load_tile(matrix, k, columns, inner_stride, column_stride, inner, num_columns)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    return total


@triton.jit
def multiply_rows(
    x, matrix, bias, out, num_rows, num_columns, inner, x_stride, inner_stride, column_stride, bias_from,
    PRECISION: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """One tile of ``x @ matrix``, with a bias for the columns from ``bias_from``."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    total = add_product(total, x, matrix, rows, columns, num_rows, num_columns, inner, x_stride, inner_stride,
                        column_stride, PRECISION, BLOCK_K)  # fmt: skip
    has_bias = (columns >= bias_from) & (columns < num_columns)
    total += tl.load(bias + columns - bias_from, mask=has_bias, other=0.0)[None, :]
    mask = (rows < num_rows)[:, None] & (columns < num_columns)[None, :]
    tl.store(out + rows.to(tl.int64)[:, None] * num_columns + columns[None, :], total, mask=mask)


@triton.jit
def sum_products(
    left, right, parts, num_rows, num_left, num_right, left_stride, right_stride, rows_per_part, part_stride,
    PRECISION: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """``left.T @ right`` over one part of the rows, followed by the column sums of ``left``."""
    part = tl.program_id(0)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    total, sums = tl.zeros([BLOCK_M, BLOCK_M], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, rows_per_part, BLOCK_N):
        rows = part * rows_per_part + start + tl.arange(0, BLOCK_N)
        left_tile = load_tile(left, rows, m, left_stride, 1, num_rows, num_left)
        right_tile = load_tile(right, rows, k, right_stride, 1, num_rows, num_right)
        total = tl.dot(tl.trans(left_tile), right_tile, total, input_precision=PRECISION)
        sums += tl.sum(left_tile, axis=0)
    here = parts + part.to(tl.int64) * part_stride
    inside = m < num_left
    mask = inside[:, None] & (k < num_right)[None, :]
    tl.store(here + m[:, None] * num_right + k[None, :], total, mask=mask)
    if tl.program_id(2) == 0:
        tl.store(here + num_left * num_right + m, sums, mask=inside)
