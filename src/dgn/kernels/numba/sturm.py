"""Eigenvalues of tridiagonal matrices by counting sign changes of Sturm sequences (Numba), exact to rounding."""

from dgn.kernels.numba.jit import jit
from dgn.kernels.numba.simd_float64 import LANES, fabs, load, splat, store, where

STEPS = 4  # of the recurrence between two rescalings; diagonals are padded to a multiple
HALVINGS = 54  # of the interval: enough for float64
EQUAL, ROUNDING = 1e-8, 7e-15  # eigenvalues of a matrix of norm 1 that differ by less, relative or absolute, are equal
CUTS = 4  # points at which the interval of an eigenvalue of a single matrix is cut at once
SECTIONS = 24  # rounds of cutting in CUTS + 1 parts: 5^24 > 2^55


@jit
def count_below(n, diagonal, square, points, below):
    r"""The number of eigenvalues below each of three points, in every lane: vectors 0, 1 and 2 of ``points``.

    The leading minors :math:`p_i = (d_i - x) p_{i-1} - e_i^2 p_{i-2}` of the shifted matrix change sign once for each.
    Three independent recurrences hide the latency of a step.
    """
    x, y, z = load(points, 0), load(points, 1), load(points, 2)
    zero, one = splat(0.0), splat(1.0)
    x_before, x_now, x_count = zero, one, zero
    y_before, y_now, y_count = zero, one, zero
    z_before, z_now, z_count = zero, one, zero
    for i in range(0, n, STEPS):
        x_before, x_now, x_count = advance(diagonal, square, i, x, x_before, x_now, x_count)
        y_before, y_now, y_count = advance(diagonal, square, i, y, y_before, y_now, y_count)
        z_before, z_now, z_count = advance(diagonal, square, i, z, z_before, z_now, z_count)
    store(below, 0, x_count)
    store(below, 1, y_count)
    store(below, 2, z_count)


@jit
def advance(diagonal, square, i, point, before, now, count):
    """Four steps of the recurrence, then a rescaling of the pair: no overflow, no division."""
    zero, one, small, large = splat(0.0), splat(1.0), splat(1e-100), splat(1e100)
    first = (load(diagonal, i) - point) * now - load(square, i) * before
    second = (load(diagonal, i + 1) - point) * first - load(square, i + 1) * now
    third = (load(diagonal, i + 2) - point) * second - load(square, i + 2) * first
    fourth = (load(diagonal, i + 3) - point) * third - load(square, i + 3) * second
    count = where((now < zero) ^ (first < zero), count + one, count)
    count = where((first < zero) ^ (second < zero), count + one, count)
    count = where((second < zero) ^ (third < zero), count + one, count)
    count = where((third < zero) ^ (fourth < zero), count + one, count)
    size = fabs(third) + fabs(fourth)
    scale = where(size < small, large, where(large < size, small, one))
    return third * scale, fourth * scale, count


@jit
def bisect(n, diagonal, square, first, count, values, points, below):
    """Eigenvalues ``first``, ``first + 1``, ... of matrices of norm 1, one per lane; ``values`` gets ``count`` vectors.

    The result lies below the eigenvalue by at most the rounding of 1. ``values`` is a multiple of three long.
    """
    for start in range(0, count, 3):
        for q in range(start, start + 3):
            store(values, q, splat(-1.0))
        step = 1.0
        for _ in range(HALVINGS):
            for q in range(3):
                store(points, q, load(values, start + q) + splat(step))
            count_below(n, diagonal, square, points, below)
            for q in range(3):
                above = splat(first + start + q + 0.5) < load(below, q)
                store(values, start + q, where(above, load(values, start + q), load(points, q)))
            step *= 0.5


@jit
def count_equal(n, diagonal, square, first, value, points, below):
    """The number of eigenvalues from number ``first`` on that are not above ``value``, but for rounding; in every lane.

    It is 0 or less where eigenvalue ``first - 1`` is ``value`` and occurs no further time.
    """
    for q in range(3):
        store(points, q, value + value * splat(EQUAL) + splat(ROUNDING))
    count_below(n, diagonal, square, points, below)
    return load(below, 0) - splat(first)


@jit
def multisect(n, diagonal, square, first, count, points, below, values):
    """As ``bisect`` for one matrix, repeated in all lanes: ``values [count]``; every lane has its own point.

    ``points`` and ``below`` are scratch for ``CUTS * count`` numbers, in whole vectors.
    """
    used = -(-CUTS * count // LANES)
    values[:] = -1.0
    width = 2.0
    for _ in range(SECTIONS):
        width /= CUTS + 1
        for q in range(count):
            for cut in range(CUTS):
                points[q * CUTS + cut] = values[q] + width * (cut + 1)
        for part in range(0, used, 3):
            count_below(n, diagonal, square, points[part * LANES :], below[part * LANES :])
        for q in range(count):
            for cut in range(CUTS):
                if below[q * CUTS + cut] < first + q + 0.5:
                    values[q] = max(values[q], points[q * CUTS + cut])
