"""Products of many rows with small matrices on the GPU (Triton), with what comes before and behind in one pass.

Three products of numbers cut in halves (``tf32x3``) are about as exact as single precision. Loops have little code in
them: what is unrolled must be fetched anew by every launch, which takes longer than to run it.
"""

import triton
import triton.language as tl


@triton.jit
def load_tile(values, rows, columns, row_stride, column_stride, num_rows, num_columns):
    mask = (rows < num_rows)[:, None] & (columns < num_columns)[None, :]
    address = values + rows.to(tl.int64)[:, None] * row_stride + columns[None, :] * column_stride
    return tl.load(address, mask=mask, other=0.0)


@triton.jit
def add_product(total, x, matrix, rows, columns, num_rows, num_columns, inner, x_stride, to_inner, to_column,
                PRECISION: tl.constexpr, BLOCK_K: tl.constexpr):  # fmt: skip
    """Add ``x @ matrix`` to a tile; the strides say how the matrix lies."""
    for start in range(0, inner, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        left = load_tile(x, rows, k, x_stride, 1, num_rows, inner)
        right = load_tile(matrix, k, columns, to_inner, to_column, inner, num_columns)
        total = tl.dot(left, right, total, input_precision=PRECISION)
    return total


@triton.jit
def multiply_rows(
    x, matrix, bias, out, num_rows, num_columns, inner, x_stride, to_inner, to_column, bias_from,
    PRECISION: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """A product, with a bias for the columns from ``bias_from``."""
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    columns = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    total = tl.zeros([BLOCK_N, BLOCK_M], tl.float32)
    total = add_product(total, x, matrix, rows, columns, num_rows, num_columns, inner, x_stride, to_inner, to_column,
                        PRECISION, BLOCK_K)  # fmt: skip
    known = (columns >= bias_from) & (columns < num_columns)
    total += tl.load(bias + columns - bias_from, mask=known, other=0.0)[None, :]
    mask = (rows < num_rows)[:, None] & (columns < num_columns)[None, :]
    tl.store(out + rows.to(tl.int64)[:, None] * num_columns + columns[None, :], total, mask=mask)


@triton.jit
def sum_products(
    left, right, parts, num_rows, num_left, num_right, left_stride, right_stride, rows_per_part, part_stride,
    PRECISION: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_M: tl.constexpr,
):  # fmt: skip
    """``left.T @ right`` of a part of the rows, and behind it the sums of the columns of ``left``."""
    part = tl.program_id(0)
    m = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    k = tl.program_id(2) * BLOCK_M + tl.arange(0, BLOCK_M)
    total, sums = tl.zeros([BLOCK_M, BLOCK_M], tl.float32), tl.zeros([BLOCK_M], tl.float32)
    for start in range(0, rows_per_part, BLOCK_N):
        rows = part * rows_per_part + start + tl.arange(0, BLOCK_N)
        one = load_tile(left, rows, m, left_stride, 1, num_rows, num_left)
        other = load_tile(right, rows, k, right_stride, 1, num_rows, num_right)
        total = tl.dot(tl.trans(one), other, total, input_precision=PRECISION)
        sums += tl.sum(one, axis=0)
    here = parts + part.to(tl.int64) * part_stride
    inside = m < num_left
    mask = inside[:, None] & (k < num_right)[None, :]
    tl.store(here + m[:, None] * num_right + k[None, :], total, mask=mask)
    if tl.program_id(2) == 0:
        tl.store(here + num_left * num_right + m, sums, mask=inside)
