"""The readout MLP on the GPU (Triton): three small linear layers with ReLUs, one kernel for each pass."""

import triton
import triton.language as tl

from dgn.kernels.triton.matmul import add_product, load_tile


@triton.jit
def store_tile(values, tile, rows, columns, num_rows, num_columns):
    mask = (rows < num_rows)[:, None] & (columns < num_columns)[None, :]
    tl.store(values + rows.to(tl.int64)[:, None] * num_columns + columns[None, :], tile, mask=mask)


@triton.jit
def linear(x, weight, bias, inner, columns, num_inner, num_columns, PRECISION: tl.constexpr):
    """``x @ weight.T + bias`` for one tile."""
    matrix = load_tile(weight, inner, columns, 1, num_inner, num_inner, num_columns)
    offset = tl.load(bias + columns, mask=columns < num_columns, other=0.0)
    return tl.dot(x, matrix, input_precision=PRECISION) + offset[None, :]


@triton.jit
def relu(x):
    """ReLU that propagates NaN, which a maximum would turn into 0."""
    return tl.where(x < 0.0, 0.0, x)


@triton.jit
def head_forward(
    x, weight1, bias1, weight2, bias2, weight3, bias3, hidden1, hidden2, out, num_rows, width0, width1, width2, width3,
    PRECISION: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK1: tl.constexpr, BLOCK2: tl.constexpr, BLOCK3: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    c1, c2, c3 = tl.arange(0, BLOCK1), tl.arange(0, BLOCK2), tl.arange(0, BLOCK3)
    offset = tl.load(bias1 + c1, mask=c1 < width1, other=0.0)
    h1 = tl.zeros([BLOCK_N, BLOCK1], tl.float32) + offset[None, :]
    h1 = add_product(h1, x, weight1, rows, c1, num_rows, width1, width0, width0, 1, width0, PRECISION, 16)
    h1 = relu(h1)
    store_tile(hidden1, h1, rows, c1, num_rows, width1)
    h2 = relu(linear(h1, weight2, bias2, c1, c2, width1, width2, PRECISION))
    store_tile(hidden2, h2, rows, c2, num_rows, width2)
    store_tile(out, linear(h2, weight3, bias3, c2, c3, width2, width3, PRECISION), rows, c3, num_rows, width3)


@triton.jit
def head_backward(
    grad, weight1, weight2, weight3, hidden1, hidden2, grad1, grad2, out, num_rows, width0, width1, width2, width3,
    PRECISION: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK0: tl.constexpr, BLOCK1: tl.constexpr, BLOCK2: tl.constexpr,
    BLOCK3: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    c0, c1, c2, c3 = tl.arange(0, BLOCK0), tl.arange(0, BLOCK1), tl.arange(0, BLOCK2), tl.arange(0, BLOCK3)
    grad3 = load_tile(grad, rows, c3, width3, 1, num_rows, width3)
    grad_hidden2 = tl.dot(grad3, load_tile(weight3, c3, c2, width2, 1, width3, width2), input_precision=PRECISION)
    grad_hidden2 = tl.where(load_tile(hidden2, rows, c2, width2, 1, num_rows, width2) > 0, grad_hidden2, 0.0)
    store_tile(grad2, grad_hidden2, rows, c2, num_rows, width2)
    weight2_tile = load_tile(weight2, c2, c1, width1, 1, width2, width1)
    grad_hidden1 = tl.dot(grad_hidden2, weight2_tile, input_precision=PRECISION)
    grad_hidden1 = tl.where(load_tile(hidden1, rows, c1, width1, 1, num_rows, width1) > 0, grad_hidden1, 0.0)
    store_tile(grad1, grad_hidden1, rows, c1, num_rows, width1)
    grad_x = tl.dot(grad_hidden1, load_tile(weight1, c1, c0, width0, 1, width1, width0), input_precision=PRECISION)
    store_tile(out, grad_x, rows, c0, num_rows, width0)
