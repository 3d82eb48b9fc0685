"""The lowest eigenvectors of one small symmetric matrix (Numba): reduce to three diagonals, bisect, iterate, return.

Only the wanted vectors are computed. Everything is float64 and exact to rounding, also for repeated eigenvalues.
"""

import numpy as np
from numba import njit, uint64

_compiled = njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract", "arcp", "nsz"})
_exact = njit(cache=True, nogil=True, error_model="numpy")

UNSIGNED = uint64  # indices that cannot be negative need no check, and their loops are vectorised
ONE = uint64(1)
CUTS = 3  # points at which an interval that holds an eigenvalue is cut at once
SECTIONS = 27  # rounds of cutting: 4^27 = 2^54, enough for float64
LANES = 8  # points are padded to a multiple of this, so that no loop has a remainder
ITERATIONS = 2  # of inverse iteration
CLUSTER = 1e-3  # eigenvalues this close, relative to the norm, are made orthogonal explicitly


@_compiled
def reduce(matrix, diagonal, off_diagonal, factor):
    r"""Householder reduction of ``matrix`` to :math:`T = Q^\top A Q` with three diagonals.

    Works on the upper triangle, whose rows are contiguous, and leaves the reflector of step k in row k, its factor in
    ``factor[k]``. One pass over the rest of the matrix per step: the update of one step is fused with the product that
    the next step needs.
    """
    n = UNSIGNED(len(matrix))
    v, w, x, image = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    for k in range(n - ONE):
        head_v, head_w = v[k], w[k]
        for i in range(k, n):  # what the last step left to do for this row
            matrix[k, i] -= head_v * w[i] + head_w * v[i]
        diagonal[k] = matrix[k, k]
        off_diagonal[k], factor[k] = reflect(matrix, k, x)
        for i in range(k + ONE, n):
            image[i] = 0.0
        for j in range(k + ONE, n):
            update_and_multiply(matrix, j, v, w, x, image)
        inner = 0.0
        for i in range(k + ONE, n):
            inner += image[i] * x[i]
        inner *= 0.5 * factor[k]
        for i in range(k + ONE, n):
            matrix[k, i] = x[i]
            v[i] = x[i]
            w[i] = factor[k] * (image[i] - inner * x[i])
    last = n - ONE
    diagonal[last] = matrix[last, last] - 2.0 * v[last] * w[last]


@_compiled
def reflect(matrix, k, x):
    """The reflector that clears row k beyond its neighbour of the diagonal, into ``x``; returns what is left of the
    row, and the factor of the reflector."""
    n = UNSIGNED(len(matrix))
    norm, head = 0.0, matrix[k, k + ONE]
    for i in range(k + ONE + ONE, n):
        norm += matrix[k, i] * matrix[k, i]
    if norm == 0.0:
        for i in range(k + ONE, n):
            x[i] = 0.0
        return head, 0.0
    beta = -np.copysign(np.sqrt(head * head + norm), head)
    scale = 1.0 / (head - beta)
    for i in range(k + ONE, n):
        x[i] = matrix[k, i] * scale
    x[k + ONE] = 1.0
    return beta, (beta - head) / beta


@_compiled
def update_and_multiply(matrix, j, v, w, x, image):
    r"""Subtract row j of :math:`v w^\top + w v^\top` from the upper triangle, and add its part of A x to ``image``."""
    head_v, head_w, head_x = v[j], w[j], x[j]
    matrix[j, j] -= 2.0 * head_v * head_w
    total = matrix[j, j] * head_x
    for i in range(j + ONE, UNSIGNED(len(matrix))):
        value = matrix[j, i] - (head_v * w[i] + head_w * v[i])
        matrix[j, i] = value
        image[i] += value * head_x
        total += value * x[i]
    image[j] += total


@_exact
def bisect(diagonal, off_diagonal, first, values):
    """Eigenvalues ``first``, ``first + 1``, ... of a tridiagonal matrix, ascending, by counting negative pivots.

    Each interval is cut at ``CUTS`` points at once: all divisions of a step are independent, and overlap.
    """
    n, count = len(diagonal), len(values)
    low, high, size = diagonal[0], diagonal[0], 0.0
    for i in range(n):
        reach = (abs(off_diagonal[i - 1]) if i else 0.0) + (abs(off_diagonal[i]) if i < n - 1 else 0.0)
        low, high = min(low, diagonal[i] - reach), max(high, diagonal[i] + reach)
        size = max(size, reach)
    margin = 1e-15 * n * max(abs(low), abs(high)) + 1e-300
    smallest = 1e-300 + 1e-32 * size * size
    lows, widths = np.full(count, low - margin), np.full(count, high - low + 2 * margin)
    lanes = -(-CUTS * count // LANES) * LANES
    points, pivots, below = np.full(lanes, low - margin), np.empty(lanes), np.empty(lanes)
    for _ in range(SECTIONS):
        for q in range(count):
            for cut in range(CUTS):
                points[q * CUTS + cut] = lows[q] + widths[q] * ((cut + 1) / (CUTS + 1))
        pivots[:] = 1.0
        below[:] = 0.0
        count_negative(diagonal, off_diagonal, points, pivots, below, smallest)
        for q in range(count):
            widths[q] /= CUTS + 1
            for cut in range(CUTS - 1, -1, -1):
                if below[q * CUTS + cut] <= first + q:
                    lows[q] = points[q * CUTS + cut]
                    break
    values[:] = lows + 0.5 * widths


@_exact
def count_negative(diagonal, off_diagonal, points, pivots, below, smallest):
    """Count the eigenvalues below each point: the negative pivots of the shifted matrix."""
    for i in range(len(diagonal)):
        square = off_diagonal[i - 1] * off_diagonal[i - 1] if i else 0.0
        entry = diagonal[i]
        for q in range(len(points)):
            pivot = entry - points[q] - square / pivots[q]
            pivot = -smallest if abs(pivot) < smallest else pivot
            pivots[q] = pivot
            below[q] += 1.0 if pivot < 0.0 else 0.0


@_exact
def factorize(diagonal, off_diagonal, shift, tiny, lower, d, u1, u2, swapped):
    """LU factorisation of a shifted tridiagonal matrix with partial pivoting."""
    n = len(diagonal)
    for i in range(n):
        d[i] = diagonal[i] - shift
        u1[i] = off_diagonal[i] if i < n - 1 else 0.0
        u2[i] = 0.0
    for i in range(n - 1):
        below = off_diagonal[i]
        swapped[i] = abs(below) > abs(d[i])
        if swapped[i]:
            lower[i] = d[i] / below
            d[i], upper, after = below, u1[i], u1[i + 1]
            u1[i], u2[i] = d[i + 1], after
            d[i + 1] = upper - lower[i] * u1[i]
            u1[i + 1] = -lower[i] * after
        else:
            if abs(d[i]) < tiny:
                d[i] = tiny
            lower[i] = below / d[i]
            d[i + 1] -= lower[i] * u1[i]
    if abs(d[n - 1]) < tiny:
        d[n - 1] = tiny


@_exact
def substitute(lower, d, u1, u2, swapped, x):
    """Solve with the factors of ``factorize``, in place."""
    n = len(x)
    for i in range(n - 1):
        if swapped[i]:
            x[i], x[i + 1] = x[i + 1], x[i] - lower[i] * x[i + 1]
        else:
            x[i + 1] -= lower[i] * x[i]
    x[n - 1] /= d[n - 1]
    if n > 1:
        x[n - 2] = (x[n - 2] - u1[n - 2] * x[n - 1]) / d[n - 2]
    for i in range(n - 3, -1, -1):
        x[i] = (x[i] - u1[i] * x[i + 1] - u2[i] * x[i + 2]) / d[i]


@_compiled
def orthonormalize(vectors, first, q):
    """Make row q of ``vectors`` orthogonal to rows ``first`` to q - 1, and of unit length."""
    x = vectors[q]
    for _ in range(2):
        for p in range(first, q):
            inner = np.dot(vectors[p], x)
            x -= inner * vectors[p]
    x /= np.sqrt(np.dot(x, x))


@_exact
def inverse_iteration(diagonal, off_diagonal, values, vectors):
    """Eigenvectors of a tridiagonal matrix into rows 1, 2, ... of ``vectors``; row 0 holds that of eigenvalue 0."""
    n, count = len(diagonal), len(values)
    lower, d, u1, u2 = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    swapped = np.empty(n, dtype=np.bool_)
    norm = 0.0
    for i in range(n):
        norm = max(norm, abs(diagonal[i]) + (abs(off_diagonal[i]) if i < n - 1 else 0.0))
    first, before = 0, 0.0
    for q in range(count):
        if values[q] - before > CLUSTER * norm:
            first = q + 1
        before = values[q]
        x = vectors[q + 1]
        state = 12345 + 7919 * q
        for i in range(n):  # fixed numbers without structure
            state = (1103515245 * state + 12345) % 2147483648
            x[i] = state / 2147483648 - 0.5
        # Copies of one eigenvalue get slightly different shifts, so that their vectors differ from the start.
        factorize(diagonal, off_diagonal, values[q] + 2e-16 * norm * (q + 1 - first), 1e-16 * norm, lower, d, u1, u2,
                  swapped)  # fmt: skip
        orthonormalize(vectors, first, q + 1)
        for _ in range(ITERATIONS):
            substitute(lower, d, u1, u2, swapped, x)
            x /= np.abs(x).max()
            orthonormalize(vectors, first, q + 1)


@_compiled
def transform(matrix, factor, vectors, forward):
    """Multiply the rows of ``vectors`` by Q, or (``forward``) by its transpose, from the reflectors of ``reduce``."""
    n = UNSIGNED(len(matrix))
    for step in range(n - ONE):
        k = step if forward else n - ONE - ONE - step
        for q in range(UNSIGNED(len(vectors))):
            inner = 0.0
            for i in range(k + ONE, n):
                inner += matrix[k, i] * vectors[q, i]
            inner *= factor[k]
            for i in range(k + ONE, n):
                vectors[q, i] -= inner * matrix[k, i]


@_compiled
def lowest(matrix, trivial, values, vectors):
    """The pairs after the trivial one: ``values [m]`` and rows 1 to m of ``vectors [m + 1, n]``; row 0 is scratch.

    ``matrix [n, n]`` is destroyed. ``trivial`` is its unit eigenvector of eigenvalue 0.
    """
    n = len(matrix)
    diagonal, off_diagonal, factor = np.empty(n), np.empty(n), np.zeros(n)
    reduce(matrix, diagonal, off_diagonal, factor)
    bisect(diagonal, off_diagonal, 1, values)
    vectors[0] = trivial
    transform(matrix, factor, vectors[:1], True)
    inverse_iteration(diagonal, off_diagonal, values, vectors)
    transform(matrix, factor, vectors[1:], False)
