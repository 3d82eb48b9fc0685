r"""Reduction of one symmetric matrix to tridiagonal form, :math:`T = Q^\top A Q` (Numba), and products with Q.

Rows are zero-padded to whole vectors. Only the 8 x 8 tiles on and above the diagonal are used, and no loop has a
remainder. Each step takes one pass over them: the rank-2 update of a step is fused with the product of the next one.
"""

import numpy as np

from dgn.kernels.numba.jit import inline_jit, jit
from dgn.kernels.numba.simd_float64 import LANES, load, splat, store, sum_lanes

ROWS = 4  # processed together; divides LANES


@jit
def reduce(n, matrix, diagonal, off_diagonal, factor, work):
    """``diagonal [n]``, ``off_diagonal [n]``, entry k + 1 of which couples k and k + 1, and ``factor [n]``.

    The reflector of step k stays in row k, with zeros up to the diagonal within its first tile. ``work`` holds four
    rows.
    """
    tiles = -(-n // LANES)
    width = LANES * tiles
    v, w, x, image = work[:width], work[width : 2 * width], work[2 * width : 3 * width], work[3 * width : 4 * width]
    v[:] = 0.0
    w[:] = 0.0
    for k in range(n - 1):
        first = (k + 1) // LANES
        diagonal[k] = matrix[k * width + k] - 2.0 * v[k] * w[k]
        off_diagonal[k + 1], factor[k] = reflector(tiles, k, matrix, v, w, x)
        for t in range(first, tiles):
            store(image, t, splat(0.0))
        for j in range((k + 1) // ROWS * ROWS, n, ROWS):
            update_and_multiply(tiles, j, matrix, v, w, x, image)
        pending_update(tiles, first, factor[k], v, w, x, image)
        for i in range(first * LANES, k + 1):
            w[i] = 0.0
    diagonal[n - 1] = matrix[(n - 1) * width + n - 1] - 2.0 * v[n - 1] * w[n - 1]
    factor[n - 1] = 0.0


@jit
def reflector(tiles, k, matrix, v, w, x):
    """Update row k and compute the reflector that clears it beyond the neighbour of the diagonal.

    The reflector is written to row k and ``x``; returns beta, the off-diagonal entry, and tau.
    """
    first, row = (k + 1) // LANES, k * tiles
    head_v, head_w = splat(v[k]), splat(w[k])
    for t in range(first, tiles):
        store(x, t, load(matrix, row + t) - (head_v * load(w, t) + head_w * load(v, t)))
    for i in range(first * LANES, k + 1):
        x[i] = 0.0
    v[k] = 0.0  # row k is finished, and further updates must not change it
    w[k] = 0.0
    head = x[k + 1]
    x[k + 1] = 0.0
    square = splat(0.0)
    for t in range(first, tiles):
        square += load(x, t) * load(x, t)
    norm = sum_lanes(square)
    beta, scale, tau = head, 0.0, 0.0
    if norm > 0.0:
        beta = -np.copysign(np.sqrt(head * head + norm), head)
        scale, tau = 1.0 / (head - beta), (beta - head) / beta
        x[k + 1] = head - beta
    for t in range(first, tiles):
        entry = load(x, t) * splat(scale)
        store(x, t, entry)
        store(matrix, row + t, entry)
    return beta, tau


@inline_jit
def update_and_multiply(tiles, j, matrix, v, w, x, image):
    r"""Subtract rows j to j + 3 of :math:`v w^\top + w v^\top`, and add their part of A x to ``image``.

    The diagonal tile is stored in full; each of the others stands for its transpose too.
    """
    tile = j // LANES
    a, b, c, d = j * tiles, (j + 1) * tiles, (j + 2) * tiles, (j + 3) * tiles
    v_a, v_b, v_c, v_d = splat(v[j]), splat(v[j + 1]), splat(v[j + 2]), splat(v[j + 3])
    w_a, w_b, w_c, w_d = splat(w[j]), splat(w[j + 1]), splat(w[j + 2]), splat(w[j + 3])
    x_a, x_b, x_c, x_d = splat(x[j]), splat(x[j + 1]), splat(x[j + 2]), splat(x[j + 3])
    v_t, w_t, x_t = load(v, tile), load(w, tile), load(x, tile)
    sum_a = updated(matrix, a + tile, v_a, w_a, v_t, w_t) * x_t
    sum_b = updated(matrix, b + tile, v_b, w_b, v_t, w_t) * x_t
    sum_c = updated(matrix, c + tile, v_c, w_c, v_t, w_t) * x_t
    sum_d = updated(matrix, d + tile, v_d, w_d, v_t, w_t) * x_t
    for t in range(tile + 1, tiles):
        v_t, w_t, x_t = load(v, t), load(w, t), load(x, t)
        value_a = updated(matrix, a + t, v_a, w_a, v_t, w_t)
        value_b = updated(matrix, b + t, v_b, w_b, v_t, w_t)
        value_c = updated(matrix, c + t, v_c, w_c, v_t, w_t)
        value_d = updated(matrix, d + t, v_d, w_d, v_t, w_t)
        sum_a += value_a * x_t
        sum_b += value_b * x_t
        sum_c += value_c * x_t
        sum_d += value_d * x_t
        store(image, t, load(image, t) + (value_a * x_a + value_b * x_b) + (value_c * x_c + value_d * x_d))
    image[j] += sum_lanes(sum_a)
    image[j + 1] += sum_lanes(sum_b)
    image[j + 2] += sum_lanes(sum_c)
    image[j + 3] += sum_lanes(sum_d)


@inline_jit
def updated(matrix, place, v_row, w_row, v, w):
    """One vector of the matrix after its rank-2 update."""
    value = load(matrix, place) - (v_row * w + w_row * v)
    store(matrix, place, value)
    return value


@jit
def pending_update(tiles, first, tau, v, w, x, image):
    r"""The vectors of the pending rank-2 update: v = x, :math:`w = \tau (A x - \frac\tau2 (x^\top A x) x)`."""
    inner = splat(0.0)
    for t in range(first, tiles):
        inner += load(image, t) * load(x, t)
    half, factor = splat(0.5 * tau * sum_lanes(inner)), splat(tau)
    for t in range(first, tiles):
        entry = load(x, t)
        store(v, t, entry)
        store(w, t, factor * (load(image, t) - half * entry))


@jit
def transform(n, matrix, factor, start, end, transposed, vectors):
    """Multiply rows ``start`` to ``end - 1`` of ``vectors`` by Q, or by its transpose, from the reflectors."""
    tiles = -(-n // LANES)
    for step in range(n - 1):
        k = step if transposed else n - 2 - step
        row = k * tiles
        for q in range(start, end):
            vector = q * tiles
            inner = splat(0.0)
            for t in range((k + 1) // LANES, tiles):
                inner += load(matrix, row + t) * load(vectors, vector + t)
            share = splat(sum_lanes(inner) * factor[k])
            for t in range((k + 1) // LANES, tiles):
                store(vectors, vector + t, load(vectors, vector + t) - share * load(matrix, row + t))
