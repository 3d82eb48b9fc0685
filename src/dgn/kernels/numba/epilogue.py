"""The end of a layer on the CPU (Numba): size factor, batch norm, ReLU and residual in two readings each way.

Rows are summed in blocks of a fixed number, whatever the threads. ``size`` and ``residual`` without rows are left out.
"""

import numpy as np

from dgn.kernels.numba.aggregate_forward import block_start
from dgn.kernels.numba.jit import compiled, inlined
from dgn.kernels.numba.simd import WIDTH, load, load_part, spread, store, where_above

ROWS = 128  # of a block: they stay in the nearest cache while they are read twice


@inlined
def sized(y, size, i, c):
    """A row with its size factor."""
    return load(y, (i, c)) * size[i] if len(size) else load(y, (i, c))


@compiled
def block_moments(first, last, y, size, mean, square):
    """The mean of some blocks of rows, and the sum of squared distances from it, each [blocks, C]."""
    channels, zero = y.shape[1], spread(y.dtype.type(0))
    for block in range(first, last):
        begin, end = block * ROWS, min((block + 1) * ROWS, len(y))
        for part in range((channels + WIDTH - 1) // WIDTH):
            c, total, squares = block_start(part, channels), zero, zero
            for i in range(begin, end):
                total = total + sized(y, size, i, c)
            middle = total / y.dtype.type(end - begin)
            for i in range(begin, end):
                away = sized(y, size, i, c) - middle
                squares = squares + away * away
            store(mean, (block, c), middle)
            store(square, (block, c), squares)


@compiled
def join_moments(rows, block_mean, block_square, epsilon, momentum, gain, moments, running_mean, running_variance):
    """Mean, inverse deviation and the product of the latter with ``gain`` of all rows: ``moments`` [3, C].

    Running statistics move towards them, with the unbiased variance.
    """
    for c in range(moments.shape[1]):
        mean, square = 0.0, 0.0
        for block in range(len(block_mean)):
            mean += (min((block + 1) * ROWS, rows) - block * ROWS) * block_mean[block, c] / rows
        for block in range(len(block_mean)):
            away = block_mean[block, c] - mean
            square += block_square[block, c] + (min((block + 1) * ROWS, rows) - block * ROWS) * away * away
        inverse = 1 / np.sqrt(square / rows + epsilon)
        moments[0, c], moments[1, c], moments[2, c] = mean, inverse, inverse * gain[c]
        running_mean[c] += momentum * (mean - running_mean[c])
        running_variance[c] += momentum * (square / max(rows - 1, 1) - running_variance[c])


@compiled
def normalize(first, last, y, size, moments, shift, residual, relu, out):
    """``out = residual + relu((size y - mean) / deviation * gain + shift)`` for some rows."""
    channels, zero = y.shape[1], spread(y.dtype.type(0))
    for part in range((channels + WIDTH - 1) // WIDTH):
        c = block_start(part, channels)
        mean, factor, base = load(moments, (0, c)), load(moments, (2, c)), load(shift, (0, c))
        for i in range(first, last):
            value = (sized(y, size, i, c) - mean) * factor + base
            if relu:
                value = where_above(zero, value, zero, value)  # NaN stays
            store(out, (i, c), value + load_part(residual, (i, c)))


@inlined
def passed_back(grad, y, size, mean, factor, base, zero, relu, i, c):
    """The gradient behind the ReLU, and the distance of a row from the mean."""
    value, away = load(grad, (i, c)), sized(y, size, i, c) - mean
    if relu:
        value = where_above(away * factor + base, zero, value, zero)
    return value, away


@compiled
def block_gradients(first, last, grad, y, size, moments, shift, relu, total, along):
    """Sums over some blocks of the gradient behind the ReLU, and of its product with normalised rows: [blocks, C]."""
    channels, zero = y.shape[1], spread(y.dtype.type(0))
    for part in range((channels + WIDTH - 1) // WIDTH):
        c = block_start(part, channels)
        mean, inverse, factor = load(moments, (0, c)), load(moments, (1, c)), load(moments, (2, c))
        base = load(shift, (0, c))
        for block in range(first, last):
            of_shift, of_gain = zero, zero
            for i in range(block * ROWS, min((block + 1) * ROWS, len(y))):
                value, away = passed_back(grad, y, size, mean, factor, base, zero, relu, i, c)
                of_shift, of_gain = of_shift + value, of_gain + value * away
            store(total, (block, c), of_shift)
            store(along, (block, c), of_gain * inverse)


@compiled
def gradient_of_rows(first, last, grad, y, size, moments, shift, relu, total, along, out):
    """The gradient of some rows of ``y``, from the sums of :func:`block_gradients` over all rows, each [1, C]."""
    channels, zero, rows = y.shape[1], spread(y.dtype.type(0)), y.dtype.type(len(y))
    for part in range((channels + WIDTH - 1) // WIDTH):
        c = block_start(part, channels)
        mean, inverse, factor = load(moments, (0, c)), load(moments, (1, c)), load(moments, (2, c))
        base, of_shift, of_gain = load(shift, (0, c)), load(total, (0, c)) / rows, load(along, (0, c)) / rows
        for i in range(first, last):
            value, away = passed_back(grad, y, size, mean, factor, base, zero, relu, i, c)
            value = factor * (value - of_shift - away * inverse * of_gain)
            store(out, (i, c), value * size[i] if len(size) else value)
