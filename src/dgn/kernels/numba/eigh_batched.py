"""Lowest eigenpairs of eight symmetric matrices of one size at once (Numba), one matrix per SIMD lane.

Entry (i, j) of all eight matrices is one vector. The result of a lane does not depend on the others.
"""

from dgn.kernels.numba.jit import jit
from dgn.kernels.numba.simd_float64 import LANES, copysign, load, splat, sqrt, store, where
from dgn.kernels.numba.sturm import bisect, count_equal
from dgn.kernels.numba.tridiagonal import factorize, rescale, substitute

ITERATIONS = 2  # of inverse iteration
APART = 2e-16  # between the shifts of copies of one eigenvalue, so that their vectors differ from the start


@jit
def lowest(n, count, matrix, values, vectors, work, noise):
    """The ``count`` pairs after the trivial one: ``values [count]`` and vectors 1 to ``count`` of ``vectors [m * n]``.

    Vector ``count`` of ``values`` gets the number of further eigenvalues that equal the last.
    ``matrix [n * n]`` is overwritten, and so is vector 0, which holds the unit eigenvectors of eigenvalue 0. ``values``
    holds a multiple of three vectors, ``work`` ``workspace_size(n)``; ``noise [count * n]`` starts the iteration.
    """
    length = LANES * (n + 8)
    diagonal, off_diagonal, square, factor = work, work[length:], work[2 * length :], work[3 * length :]
    points, below, scratch = work[4 * length :], work[4 * length + 3 * LANES :], work[4 * length + 6 * LANES :]
    zero = splat(0.0)
    for i in (0, n, n + 1):
        store(off_diagonal, i, zero)
    reduce(n, matrix, diagonal, off_diagonal, factor, scratch)
    norm = rescale(n, diagonal, off_diagonal, square)
    bisect(n, diagonal, square, 1, count, values, points, below)
    more = count_equal(n, diagonal, square, count + 1, load(values, count - 1), points, below)
    transform_trivial(n, matrix, factor, vectors)
    iterate(n, diagonal, off_diagonal, values, count, vectors, scratch, noise)
    transform(n, matrix, factor, 1, count + 1, vectors)
    for q in range(count):
        store(values, q, load(values, q) * norm)
    store(values, count, more)


@jit
def workspace_size(n):
    """The number of scratch vectors of ``lowest``."""
    return 9 * (n + 8) + 6


@jit
def reduce(n, matrix, diagonal, off_diagonal, factor, work):
    """Tridiagonalise ``matrix [n * n]`` vectors; the reflector of step k stays in row k beyond the diagonal.

    ``off_diagonal[k + 1]`` couples k and k + 1. ``work`` holds 4 n vectors.
    """
    v, w, x, image = work[: LANES * n], work[LANES * n :], work[2 * LANES * n :], work[3 * LANES * n :]
    zero = splat(0.0)
    for i in range(n):
        store(v, i, zero)
        store(w, i, zero)
    for k in range(n - 1):
        head_v, head_w = load(v, k), load(w, k)
        for i in range(k, n):  # the pending update of this row
            place = k * n + i
            store(matrix, place, load(matrix, place) - (head_v * load(w, i) + head_w * load(v, i)))
        store(diagonal, k, load(matrix, k * n + k))
        beta, tau = reflector(n, k, matrix, x)
        store(off_diagonal, k + 1, beta)
        store(factor, k, tau)
        for i in range(k + 1, n):
            store(image, i, zero)
        for j in range(k + 1, n):
            update_and_multiply(n, j, matrix, v, w, x, image)
        inner = zero
        for i in range(k + 1, n):
            inner += load(image, i) * load(x, i)
        inner *= splat(0.5) * tau
        for i in range(k + 1, n):
            entry = load(x, i)
            store(matrix, k * n + i, entry)
            store(v, i, entry)
            store(w, i, tau * (load(image, i) - inner * entry))
    last = n - 1
    store(diagonal, last, load(matrix, last * n + last) - splat(2.0) * load(v, last) * load(w, last))


@jit
def reflector(n, k, matrix, x):
    """The reflector that clears row k beyond the neighbour of the diagonal, written to ``x``; returns beta and tau."""
    zero, one = splat(0.0), splat(1.0)
    head, norm = load(matrix, k * n + k + 1), zero
    for i in range(k + 2, n):
        entry = load(matrix, k * n + i)
        norm += entry * entry
    clear = zero < norm
    beta = where(clear, zero - copysign(sqrt(head * head + norm), head), head)
    scale = where(clear, one / (head - beta), zero)
    for i in range(k + 2, n):
        store(x, i, load(matrix, k * n + i) * scale)
    store(x, k + 1, where(clear, one, zero))
    return beta, where(clear, (beta - head) / beta, zero)


@jit
def update_and_multiply(n, j, matrix, v, w, x, image):
    r"""Subtract row j of :math:`v w^\top + w v^\top` from the upper triangle, and add its part of A x to ``image``."""
    head_v, head_w, head_x = load(v, j), load(w, j), load(x, j)
    place = j * n + j
    value = load(matrix, place) - splat(2.0) * head_v * head_w
    store(matrix, place, value)
    total = value * head_x
    for i in range(j + 1, n):
        place += 1
        value = load(matrix, place) - (head_v * load(w, i) + head_w * load(v, i))
        store(matrix, place, value)
        store(image, i, load(image, i) + value * head_x)
        total += value * load(x, i)
    store(image, j, load(image, j) + total)


@jit
def transform(n, matrix, factor, first, last, vectors):
    """Multiply vectors ``first`` to ``last - 1`` of ``vectors [m * n]`` by Q, from the reflectors."""
    for k in range(n - 2, -1, -1):
        tau = load(factor, k)
        for q in range(first, last):
            reflect(n, k, q, matrix, tau, vectors)


@jit
def transform_trivial(n, matrix, factor, vectors):
    """Multiply vector 0 of ``vectors`` by the transpose of Q."""
    for k in range(n - 1):
        reflect(n, k, 0, matrix, load(factor, k), vectors)


@jit
def reflect(n, k, q, matrix, tau, vectors):
    inner = splat(0.0)
    for i in range(k + 1, n):
        inner += load(matrix, k * n + i) * load(vectors, q * n + i)
    inner *= tau
    for i in range(k + 1, n):
        store(vectors, q * n + i, load(vectors, q * n + i) - inner * load(matrix, k * n + i))


@jit
def iterate(n, diagonal, off_diagonal, values, count, vectors, factors, noise):
    """Vectors 1 to ``count`` of ``vectors [m * n]`` from ``values``; vector 0 holds that of eigenvalue 0."""
    for q in range(count):
        for i in range(n):
            store(vectors, (q + 1) * n + i, splat(noise[q * n + i]))
        factorize(n, diagonal, off_diagonal, load(values, q) + splat(APART * q), factors)
        for _ in range(ITERATIONS):
            substitute(n, factors, vectors, (q + 1) * n)
            orthonormalize(n, q + 1, vectors)


@jit
def orthonormalize(n, q, vectors):
    """Make vector q orthogonal to those before it, and of unit length. Twice, against rounding."""
    square = splat(0.0)
    for _ in range(2):
        for p in range(q):
            inner = splat(0.0)
            for i in range(n):
                inner += load(vectors, p * n + i) * load(vectors, q * n + i)
            for i in range(n):
                store(vectors, q * n + i, load(vectors, q * n + i) - inner * load(vectors, p * n + i))
    for i in range(n):
        square += load(vectors, q * n + i) * load(vectors, q * n + i)
    scale = splat(1.0) / sqrt(square)
    for i in range(n):
        store(vectors, q * n + i, load(vectors, q * n + i) * scale)
