"""Products with tall matrices of few columns (Numba), whose bits do not depend on the number of threads.

Rows are processed in blocks of fixed size; sums over rows are taken block by block, then over blocks in order. Columns
of an array are passed as ``Columns``, not as a slice: with contiguous rows the compiler vectorises.
"""

from typing import NamedTuple

import numpy as np
from numba import uint64
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dgn.kernels.numba.jit import cached_njit
from dgn.kernels.numba.threads import for_chunks

Array = NDArray[np.float64]

BLOCK = 1024  # rows
ONE, TWO, THREE, FOUR = uint64(1), uint64(2), uint64(3), uint64(4)
_fast = cached_njit(fastmath={"reassoc", "contract", "nsz"})


class Columns(NamedTuple):
    """``count`` columns of an array [n, ...] with contiguous rows, from column ``first`` on."""

    array: Array
    first: int
    count: int

    def view(self) -> Array:
        return self.array[:, self.first : self.first + self.count]


def all_columns(array: Array) -> Columns:
    """All columns."""
    return Columns(array, 0, array.shape[1])


class Rows(NamedTuple):
    """A CSR matrix with unsigned indices, which compiled loops need not check for negative values."""

    start: NDArray[np.uint32]
    column: NDArray[np.uint32]
    value: Array


def rows_of(matrix: csr_array) -> Rows:
    """A SciPy CSR matrix as :class:`Rows`."""
    return Rows(matrix.indptr.astype(np.uint32), matrix.indices.astype(np.uint32), matrix.data.astype(np.float64))


def inner(left: Columns, right: Columns) -> Array:
    """The inner products of columns, ``left.T @ right``. [n, p], [n, q] -> [p, q]"""
    blocks = -(-len(left.array) // BLOCK)
    partial = np.zeros((blocks, left.count, right.count))
    work = left.array, left.first, right.array, right.first, partial
    for_chunks(lambda begin, end: _inner(begin, end, *work), blocks, 4)
    return np.asarray(partial.sum(axis=0))


def combine(basis: Columns, mixture: Array, target: Columns) -> None:
    """``target[:] = basis @ mixture``; the target may be columns of the basis. [n, p], [p, q], [n, q]"""
    work = basis.array, basis.first, np.ascontiguousarray(mixture), target.array, target.first
    for_chunks(lambda begin, end: _combine(begin, end, *work), len(basis.array), BLOCK)


def multiply(matrix: Rows, vectors: Columns, shift: Array, target: Array) -> None:
    """``target[:, :q] = matrix @ vectors - vectors * shift``. [n, n], [n, q], [q], [n, q or more]"""
    compact = np.ascontiguousarray(vectors.view())  # rows are read in any order, and should share no cache line
    work = *matrix, compact, shift, target
    for_chunks(lambda begin, end: _multiply(begin, end, *work), len(target), BLOCK)


@_fast
def _inner(first, last, left, left_first, right, right_first, partial):
    n, p, q = uint64(len(left)), uint64(partial.shape[1]), uint64(partial.shape[2])
    a, b = uint64(left_first), uint64(right_first)
    for block in range(uint64(first), uint64(last)):
        begin = block * uint64(BLOCK)
        end = min(begin + uint64(BLOCK), n)
        quads = end - (end - begin) % FOUR
        for r in range(begin, quads, FOUR):  # four rows at once: a quarter of the loads and stores of the sums
            for i in range(p):
                w, x = left[r, a + i], left[r + ONE, a + i]
                y, z = left[r + TWO, a + i], left[r + THREE, a + i]
                for j in range(q):
                    partial[block, i, j] += (
                        w * right[r, b + j] + x * right[r + ONE, b + j]
                        + y * right[r + TWO, b + j] + z * right[r + THREE, b + j]
                    )  # fmt: skip
        for r in range(quads, end):
            for i in range(p):
                for j in range(q):
                    partial[block, i, j] += left[r, a + i] * right[r, b + j]


@_fast
def _combine(first, last, basis, basis_first, mixture, target, target_first):
    p, q = uint64(mixture.shape[0]), uint64(mixture.shape[1])
    a, b, quads = uint64(basis_first), uint64(target_first), p - p % FOUR
    total = np.empty(mixture.shape[1])
    for r in range(uint64(first), uint64(last)):
        for j in range(q):
            total[j] = 0.0
        for i in range(uint64(0), quads, FOUR):
            w, x = basis[r, a + i], basis[r, a + i + ONE]
            y, z = basis[r, a + i + TWO], basis[r, a + i + THREE]
            for j in range(q):
                total[j] += (
                    w * mixture[i, j] + x * mixture[i + ONE, j]
                    + y * mixture[i + TWO, j] + z * mixture[i + THREE, j]
                )  # fmt: skip
        for i in range(quads, p):
            for j in range(q):
                total[j] += basis[r, a + i] * mixture[i, j]
        for j in range(q):
            target[r, b + j] = total[j]


@_fast
def _multiply(first, last, rows, columns, data, vectors, shift, target):
    q = uint64(len(shift))
    total = np.empty(len(shift))
    for row in range(uint64(first), uint64(last)):
        for j in range(q):
            total[j] = -shift[j] * vectors[row, j]
        for at in range(uint64(rows[row]), uint64(rows[row + ONE])):
            x, column = data[at], uint64(columns[at])
            for j in range(q):
                total[j] += x * vectors[column, j]
        for j in range(q):
            target[row, j] = total[j]
