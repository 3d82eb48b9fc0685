"""Tridiagonal matrices, one per lane (Numba): brought to norm 1, factorised, solved.

Entry i of ``off_diagonal`` couples i - 1 and i; it has n + 2 entries, the first and the last two of them 0.
"""

from dgn.kernels.numba.jit import compiled
from dgn.kernels.numba.simd_float64 import load, magnitude, spread, store, where
from dgn.kernels.numba.sturm import STEPS

TINY = 1e-16  # the least pivot, relative to the norm
NEGLIGIBLE = 1e-34  # square of an off-diagonal entry that couples nothing, relative to the norm


@compiled
def rescale(n, diagonal, off_diagonal, square):
    """Divide tridiagonal matrices, one per lane, by a bound of their norm; returns the bound.

    ``square`` gets the squares of the off-diagonal entries, none of them 0. Entry i of ``off_diagonal`` couples i - 1
    and i. ``diagonal`` is padded to a multiple of ``STEPS`` by rows that change no count.
    """
    norm = spread(0.0)
    for i in range(n):
        reach = magnitude(load(diagonal, i)) + magnitude(load(off_diagonal, i)) + magnitude(load(off_diagonal, i + 1))
        norm = where(norm < reach, reach, norm)
    norm = where(spread(0.0) < norm, norm, spread(1.0))
    inverse, least = spread(1.0) / norm, spread(NEGLIGIBLE)
    for i in range(n):
        entry = load(off_diagonal, i) * inverse
        store(diagonal, i, load(diagonal, i) * inverse)
        store(off_diagonal, i, entry)
        store(square, i, where(least < entry * entry, entry * entry, least))
    for i in range(n, -(-n // STEPS) * STEPS):
        store(diagonal, i, spread(2.0))
        store(square, i, spread(0.0))
    return norm


@compiled
def factorize(n, diagonal, off_diagonal, shift, factors):
    """LU factorisation with partial pivoting of a shifted tridiagonal matrix in every lane.

    ``factors`` gets five vectors per row: the inverse pivot, two entries of U, that of L, and 1 where rows were
    swapped.
    """
    zero, one, tiny = spread(0.0), spread(1.0), spread(TINY)
    pivot, upper = load(diagonal, 0) - shift, load(off_diagonal, 1)
    for i in range(n - 1):
        below, entry = load(off_diagonal, i + 1), load(diagonal, i + 1) - shift
        after = load(off_diagonal, i + 2)
        swap = magnitude(pivot) < magnitude(below)
        best = where(swap, below, pivot)
        inverse = one / where(magnitude(best) < tiny, tiny, best)
        lower = where(swap, pivot, below) * inverse
        u1, u2 = where(swap, entry, upper), where(swap, after, zero)
        store(factors, 5 * i, inverse)
        store(factors, 5 * i + 1, u1)
        store(factors, 5 * i + 2, u2)
        store(factors, 5 * i + 3, lower)
        store(factors, 5 * i + 4, where(swap, one, zero))
        pivot = where(swap, upper, entry) - lower * u1
        upper = where(swap, zero, after) - lower * u2
    store(factors, 5 * (n - 1), one / where(magnitude(pivot) < tiny, tiny, pivot))


@compiled
def substitute(n, factors, x, start):
    """Solve with the factors, in place, for the right side in vectors ``start`` to ``start + n - 1`` of ``x``."""
    zero = spread(0.0)
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
