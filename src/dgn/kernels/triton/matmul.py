"""Products of many rows with small matrices on the GPU (Triton).

Three products of split operands (``tf32x3``) are about as exact as float32. Loop bodies are short: unrolled code is
fetched again at every launch, which takes longer than to run it.
"""

from functools import cache

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn.functional import pad

from dgn.kernels.triton.launch import Launcher
from dgn.kernels.triton.sizes import ceil_div

LIBRARY_WIDTH = 256  # columns of x; beyond, the library multiplies
# Measured on an H200 with widths of 45 and 90.
PRODUCT = {"BLOCK_N": 32, "BLOCK_M": 64, "BLOCK_K": 16, "num_stages": 2}


def precision() -> str:
    """The precision of products: that of float32, unless ``torch.set_float32_matmul_precision`` allows less."""
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def multiply(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """``x @ weight.T``, with a bias on the last columns.

    Shapes:
        ``x`` [N, K], ``weight`` [1, M, K], ``bias`` with B contiguous numbers for the last B columns; returns [N, M].
    """
    (_, columns, inner), rows = weight.shape, x.size(0)
    if inner > LIBRARY_WIDTH:
        return torch.addmm(pad(bias.flatten(), (columns - bias.numel(), 0)), x, weight[0].T)
    out = x.new_empty(rows, columns)
    grid = ceil_div(rows, PRODUCT["BLOCK_N"]), ceil_div(columns, PRODUCT["BLOCK_M"])
    numbers = rows, columns, inner, x.stride(0), weight.stride(2), weight.stride(1), columns - bias.numel()
    _multiply_kernel(precision())(grid, (x, weight, bias, out), *numbers)
    return out


@cache
def _multiply_kernel(product_precision: str) -> Launcher:
    return Launcher(multiply_rows, PRECISION=product_precision, **PRODUCT)


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
