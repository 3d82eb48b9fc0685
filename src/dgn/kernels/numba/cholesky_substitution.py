"""Forward and backward substitution with a triangular factor (Numba), several right-hand sides at once."""

import numpy as np
from numba import uint64

from dgn.kernels.numba.jit import jit

ONE = uint64(1)


@jit
def substitute(order, first, row, entry, inverse, right, begin, end, target, shift):
    """Solve for columns ``begin`` to ``end`` of ``right``, and write them ``shift`` columns further in ``target``.

    The arithmetic is on a float32 copy in the order of elimination; see ``Factor`` for the first five arguments.
    """
    n, m, b, t = uint64(len(order)), uint64(end - begin), uint64(begin), uint64(begin + shift)
    y = np.empty((len(order), end - begin), np.float32)
    for c in range(n):
        for q in range(m):
            y[c, q] = right[uint64(order[c]), b + q]
    _forward(first, row, entry, y)
    _backward(first, row, entry, inverse, y)
    for c in range(n):
        for q in range(m):
            target[uint64(order[c]), t + q] = y[c, q]


@jit
def _forward(first, row, entry, y):
    n, m = uint64(y.shape[0]), uint64(y.shape[1])
    for c in range(n):
        for at in range(uint64(first[c]), uint64(first[c + ONE])):
            r, share = uint64(row[at]), entry[at]
            for q in range(m):
                y[r, q] += share * y[c, q]


@jit
def _backward(first, row, entry, inverse, y):
    n, m = uint64(y.shape[0]), uint64(y.shape[1])
    for step in range(n):
        c = n - ONE - step
        for q in range(m):
            y[c, q] *= inverse[c]
        for at in range(uint64(first[c]), uint64(first[c + ONE])):
            r, share = uint64(row[at]), entry[at]
            for q in range(m):
                y[c, q] += share * y[r, q]
