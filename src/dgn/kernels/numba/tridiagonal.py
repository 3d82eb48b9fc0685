"""Tridiagonal matrices, one per lane (Numba): rescaling to norm 1, LU factorisation, substitution.

Entry i of ``off_diagonal`` couples i - 1 and i; it has n + 2 entries, the first and the last two of them 0.
"""

from dgn.kernels.numba.jit import jit
from dgn.kernels.numba.simd_float64 import fabs, load, splat, store, where
from dgn.kernels.numba.sturm import STEPS

TINY = 1e-16  # the smallest pivot, relative to the norm
NEGLIGIBLE = 1e-34  # square of an off-diagonal entry that couples nothing, relative to the norm


@jit
def rescale(n, diagonal, off_diagonal, square):
    """Divide tridiagonal matrices, one per lane, by a bound of their norm; returns the bound.

    ``square`` gets the squares of the off-diagonal entries, none of them 0. Entry i of ``off_diagonal`` couples i - 1
    and i. ``diagonal`` is padded to a multiple of ``STEPS`` by rows that change no count.
    """
    norm = splat(0.0)
    for i in range(n):
        reach = fabs(load(diagonal, i)) + fabs(load(off_diagonal, i)) + fabs(load(off_diagonal, i + 1))
        norm = where(norm < reach, reach, norm)
    norm = where(splat(0.0) < norm, norm, splat(1.0))
    inverse, least = splat(1.0) / norm, splat(NEGLIGIBLE)
    for i in range(n):
        entry = load(off_diagonal, i) * inverse
        store(diagonal, i, load(diagonal, i) * inverse)
        store(off_diagonal, i, entry)
        store(square, i, where(least < entry * entry, entry * entry, least))
    for i in range(n, -(-n // STEPS) * STEPS):
        store(diagonal, i, splat(2.0))
        store(square, i, splat(0.0))
    return norm


@jit
def factorize(n, diagonal, off_diagonal, shift, factors):
    """LU factorisation with partial pivoting of a shifted tridiagonal matrix in every lane.

    ``factors`` gets five vectors per row: the inverse pivot, two entries of U, that of L, and 1 where rows were
    swapped.
    """
    zero, one, tiny = splat(0.0), splat(1.0), splat(TINY)
    pivot, upper = load(diagonal, 0) - shift, load(off_diagonal, 1)
    for i in range(n - 1):
        below, entry = load(off_diagonal, i + 1), load(diagonal, i + 1) - shift
        after = load(off_diagonal, i + 2)
        swap = fabs(pivot) < fabs(below)
        best = where(swap, below, pivot)
        inverse = one / where(fabs(best) < tiny, tiny, best)
        lower = where(swap, pivot, below) * inverse
        u1, u2 = where(swap, entry, upper), where(swap, after, zero)
        store(factors, 5 * i, inverse)
        store(factors, 5 * i + 1, u1)
        store(factors, 5 * i + 2, u2)
        store(factors, 5 * i + 3, lower)
        store(factors, 5 * i + 4, where(swap, one, zero))
        pivot = where(swap, upper, entry) - lower * u1
        upper = where(swap, zero, after) - lower * u2
    store(factors, 5 * (n - 1), one / where(fabs(pivot) < tiny, tiny, pivot))


@jit
def substitute(n, factors, x, start):
    """Solve with the factors, in place, for the right-hand side in vectors ``start`` to ``start + n - 1`` of ``x``."""
    zero = splat(0.0)
    now = load(x, start)
    for i in range(n - 1):
        after, swap = load(x, start + i + 1), zero < load(factors, 5 * i + 4)
        upper = where(swap, after, now)
        store(x, start + i, upper)
        now = where(swap, now, after) - load(factors, 5 * i + 3) * upper
    now *= load(factors, 5 * (n - 1))
    store(x, start + n - 1, now)
    after = zero
    for i in range(n - 2, -1, -1):
        total = load(x, start + i) - load(factors, 5 * i + 1) * now - load(factors, 5 * i + 2) * after
        after, now = now, total * load(factors, 5 * i)
        store(x, start + i, now)
