"""Matrix products of many rows on the CPU (Numba), a range of rows at a time: any thread may take any range.

A row of a result has the same bits whatever range it was computed in. Widths of ``right`` and of results are multiples
of 16; ``spans`` [P, 2] are the columns of ``left`` that are read, so that what fills rows up never enters a sum.
"""

import numpy as np

from dgn.kernels.numba.jit import compiled, inlined
from dgn.kernels.numba.simd import WIDTH, load, spread, store
from dgn.kernels.numba.tiles import ROWS, make_tile

WIDEST = 3 * WIDTH


def make_product(rows, transposed=False):
    """``out = start + left @ right`` for ``rows`` rows from i and the columns k to ``end`` of ``left``.

    Transposed, it is ``left.T @ right`` over the rows k to ``end``, for ``rows`` columns of ``left`` from i.
    """
    one, two, three = (make_tile(rows, vectors, transposed) for vectors in (1, 2, 3))

    @inlined
    def multiply(left, right, start, out, i, k, end):
        for j in range(0, out.shape[1], WIDEST):
            rest = out.shape[1] - j
            if rest >= WIDEST:
                three(left, right, start, out, i, j, k, end)
            elif rest > WIDTH:
                two(left, right, start, out, i, j, k, end)
            else:
                one(left, right, start, out, i, j, k, end)

    return multiply


multiply_block, multiply_row, multiply_columns = make_product(ROWS), make_product(1), make_product(ROWS, True)


@compiled
def multiply_rows(first, last, left, right, start, out, spans):
    """``out = start + left @ right`` for some rows; ``start`` has one row for all, or one for each."""
    for i in range(first, last - ROWS + 1, ROWS):
        multiply_block(left, right, start, out, i, spans[0, 0], spans[0, 1])
        for span in range(1, len(spans)):
            multiply_block(left, right, out, out, i, spans[span, 0], spans[span, 1])
    for i in range(last - (last - first) % ROWS, last):
        multiply_row(left, right, start, out, i, spans[0, 0], spans[0, 1])
        for span in range(1, len(spans)):
            multiply_row(left, right, out, out, i, spans[span, 0], spans[span, 1])


@inlined
def copy_row(source, i, target, j):
    for c in range(0, target.shape[1], WIDTH):
        store(target, (j, c), load(source, (i, c)))


@compiled
def multiply_groups(first, last, left, right, bounds, order, start, out, spans):
    """``out[order[p]] = start[order[p]] + left[p] @ right[k]`` for some p, k the group that p lies in.

    Rows ``bounds[k]`` to ``bounds[k + 1]`` of ``left`` are group k; without ``order`` p is the row itself.
    """
    rows = np.empty((ROWS, out.shape[1]), out.dtype)
    for k in range(len(right)):
        p, end = max(first, bounds[k]), min(last, bounds[k + 1])
        while p < end:
            some = ROWS if end - p >= ROWS else 1
            block = left[p : p + some]
            for r in range(some):
                copy_row(start, order[p + r] if len(order) else p + r, rows, r)
            for span in range(len(spans)):
                if some == ROWS:
                    multiply_block(block, right[k], rows, rows, 0, spans[span, 0], spans[span, 1])
                else:
                    multiply_row(block, right[k], rows, rows, 0, spans[span, 0], spans[span, 1])
            for r in range(some):
                copy_row(rows, r, out, order[p + r] if len(order) else p + r)
            p += some


@compiled
def multiply_groups_back(first, last, grad, right, bounds, order, sorted_grad, own, out, width):
    """``out[p] = grad[order[p]] @ right[k]`` for some p, from ``width`` columns; ``grad`` is copied, sorted and not."""
    nothing = np.zeros((1, out.shape[1]), out.dtype)
    for k in range(len(right)):
        p, end = max(first, bounds[k]), min(last, bounds[k + 1])
        for q in range(p, end):
            row = order[q] if len(order) else q
            copy_row(grad, row, sorted_grad, q)
            copy_row(grad, row, own, row)
        while p < end:
            if end - p >= ROWS:
                multiply_block(sorted_grad, right[k], nothing, out, p, 0, width)
                p += ROWS
            else:
                multiply_row(sorted_grad, right[k], nothing, out, p, 0, width)
                p += 1


@compiled
def multiply_turned(first, last, pieces, left, right, out, sums):
    """``left.T @ right`` over the rows of each of some pieces, and the sums of the columns of ``left`` there.

    Shapes:
        ``pieces`` [P, 2] first and last rows, ``out`` [P, columns of left, columns of right], ``sums`` [P, columns of
        left], or without rows, when they are left out.
    """
    nothing = np.zeros((1, right.shape[1]), right.dtype)
    zero = spread(left.dtype.type(0))
    for piece in range(first, last):
        begin, end, result = pieces[piece, 0], pieces[piece, 1], out[piece]
        for i in range(0, left.shape[1], ROWS):
            multiply_columns(left, right, nothing, result, i, begin, end)
        for c in range(0, left.shape[1] if len(sums) else 0, WIDTH):
            total = zero
            for row in range(begin, end):
                total = total + load(left, (row, c))
            store(sums, (piece, c), total)
