"""Lowest eigenpairs of one symmetric matrix (Numba): a vector is eight columns of a row, or eight eigenvalues.

For matrices of which eight would not fit into the cache. Rows are zero-padded to whole vectors.
"""

from dgn.kernels.numba.jit import jit
from dgn.kernels.numba.simd_float64 import LANES, load, splat, store, sum_lanes
from dgn.kernels.numba.sturm import CUTS, count_equal, multisect
from dgn.kernels.numba.tridiagonal import factorize, rescale, substitute
from dgn.kernels.numba.tridiagonalize import reduce, transform

ITERATIONS = 2  # of inverse iteration
APART = 2e-16  # between the shifts of copies of one eigenvalue, so that their vectors differ from the start


@jit
def lowest(n, count, matrix, values, vectors, work, noise):
    """The ``count`` pairs after the trivial one: ``values [count]`` and rows 1 to ``count`` of ``vectors``.

    Entry ``count`` of ``values`` gets the number of further eigenvalues that equal the last.
    ``matrix`` is square, zero-padded to whole vectors, and overwritten; so is row 0 of ``vectors``, the unit
    eigenvector of eigenvalue 0. ``work`` holds ``workspace_size(n, count)`` vectors.
    """
    length = LANES * (n + 8)
    diagonal, off_diagonal, square = work, work[length:], work[2 * length :]
    narrow, factor, scratch = work[3 * length :], work[3 * length + 2 * (n + 8) :], work[4 * length :]
    reduce(n, matrix, narrow, narrow[n + 8 :], factor, scratch)
    narrow[n + 8] = narrow[2 * n + 8] = narrow[2 * n + 9] = 0.0
    for i in range(n + 2):
        store(diagonal, i, splat(narrow[i]))
        store(off_diagonal, i, splat(narrow[n + 8 + i]))
    store(scratch, 0, rescale(n, diagonal, off_diagonal, square))
    norm = scratch[0]
    part = LANES * 3 * (-(-CUTS * count // (3 * LANES)))
    multisect(n, diagonal, square, 1, count, scratch, scratch[part:], values[:count])
    more = count_equal(n, diagonal, square, count + 1, splat(values[count - 1]), scratch, scratch[3 * LANES :])
    transform(n, matrix, factor, 0, 1, True, vectors)
    iterate(n, diagonal, off_diagonal, values, count, vectors, scratch, noise)
    transform(n, matrix, factor, 1, count + 1, False, vectors)
    for q in range(count):
        values[q] *= norm
    store(scratch, 0, more)
    values[count] = scratch[0]


@jit
def workspace_size(n, count):
    """The number of scratch vectors of ``lowest``."""
    return 4 * (n + 8) + max(6 * (n + 8), count + 6)


@jit
def iterate(n, diagonal, off_diagonal, values, count, vectors, work, noise):
    """Rows 1 to ``count`` of ``vectors`` from ``values``, eight at a time; row 0 holds that of eigenvalue 0."""
    width = LANES * (-(-n // LANES))
    factors, x = work, work[5 * LANES * (n + 8) :]
    for start in range(0, count, LANES):
        lanes_used = min(LANES, count - start)
        for lane in range(LANES):
            q = min(start + lane, count - 1)
            x[lane] = values[q] + APART * q
        factorize(n, diagonal, off_diagonal, load(x, 0), factors)
        for q in range(start, start + lanes_used):
            for i in range(n):
                vectors[(q + 1) * width + i] = noise[q * n + i]
            vectors[(q + 1) * width + n : (q + 2) * width] = 0.0
        for _ in range(ITERATIONS):
            for lane in range(LANES):
                row = (min(start + lane, count - 1) + 1) * width
                for i in range(n):
                    x[i * LANES + lane] = vectors[row + i]
            substitute(n, factors, x, 0)
            for q in range(start, start + lanes_used):
                for i in range(n):
                    vectors[(q + 1) * width + i] = x[i * LANES + q - start]
                orthonormalize(width // LANES, q + 1, vectors)


@jit
def orthonormalize(tiles, q, vectors):
    """Make row q orthogonal to those before it, and of unit length. Twice, against rounding."""
    row = q * tiles
    for _ in range(2):
        for p in range(q):
            inner = splat(0.0)
            for t in range(tiles):
                inner += load(vectors, p * tiles + t) * load(vectors, row + t)
            inner = splat(sum_lanes(inner))
            for t in range(tiles):
                store(vectors, row + t, load(vectors, row + t) - inner * load(vectors, p * tiles + t))
    square = splat(0.0)
    for t in range(tiles):
        square += load(vectors, row + t) * load(vectors, row + t)
    scale = splat(sum_lanes(square) ** -0.5)
    for t in range(tiles):
        store(vectors, row + t, load(vectors, row + t) * scale)
