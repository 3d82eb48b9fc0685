r"""Reduction of one symmetric matrix to three diagonals, :math:`T = Q^\top A Q` (Numba), and products with Q.

Rows are padded with zeros to whole vectors. Of the symmetric matrix the tiles of eight by eight on and above the
diagonal are used, so that no loop has a remainder. One pass over them per step: the update that one step leaves is
fused with the product that the next one needs.
"""

import numpy as np

from dgn.kernels.numba.jit import compiled, inlined
from dgn.kernels.numba.simd_float64 import LANES, across, load, spread, store

ROWS = 4  # that share one reading of the vectors; divides LANES


@compiled
def reduce(n, matrix, diagonal, off_diagonal, factor, work):
    """``diagonal [n]``, ``off_diagonal [n]``, entry k + 1 of which couples k and k + 1, and ``factor [n]``.

    The reflector of step k stays in row k, with zeros up to the diagonal within its first tile. ``work`` has room for
    four rows.
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
            store(image, t, spread(0.0))
        for j in range((k + 1) // ROWS * ROWS, n, ROWS):
            update_and_multiply(tiles, j, matrix, v, w, x, image)
        finish(tiles, first, factor[k], v, w, x, image)
        for i in range(first * LANES, k + 1):
            w[i] = 0.0
    diagonal[n - 1] = matrix[(n - 1) * width + n - 1] - 2.0 * v[n - 1] * w[n - 1]
    factor[n - 1] = 0.0


@compiled
def reflector(tiles, k, matrix, v, w, x):
    """Bring row k up to date and find the reflector that clears it beyond the neighbour of the diagonal.

    The reflector goes into row k and ``x``; returns what is left of the row, and the factor of the reflector.
    """
    first, row = (k + 1) // LANES, k * tiles
    head_v, head_w = spread(v[k]), spread(w[k])
    for t in range(first, tiles):
        store(x, t, load(matrix, row + t) - (head_v * load(w, t) + head_w * load(v, t)))
    for i in range(first * LANES, k + 1):
        x[i] = 0.0
    v[k] = 0.0  # from here on row k is finished, and no update may touch it
    w[k] = 0.0
    head = x[k + 1]
    x[k + 1] = 0.0
    square = spread(0.0)
    for t in range(first, tiles):
        square += load(x, t) * load(x, t)
    norm = across(square)
    beta, scale, tau = head, 0.0, 0.0
    if norm > 0.0:
        beta = -np.copysign(np.sqrt(head * head + norm), head)
        scale, tau = 1.0 / (head - beta), (beta - head) / beta
        x[k + 1] = head - beta
    for t in range(first, tiles):
        entry = load(x, t) * spread(scale)
        store(x, t, entry)
        store(matrix, row + t, entry)
    return beta, tau


@inlined
def update_and_multiply(tiles, j, matrix, v, w, x, image):
    r"""Subtract rows j to j + 3 of :math:`v w^\top + w v^\top`, and add their part of A x to ``image``.

    The tile on the diagonal is stored whole; each of the others stands for its mirror image too.
    """
    tile = j // LANES
    a, b, c, d = j * tiles, (j + 1) * tiles, (j + 2) * tiles, (j + 3) * tiles
    v_a, v_b, v_c, v_d = spread(v[j]), spread(v[j + 1]), spread(v[j + 2]), spread(v[j + 3])
    w_a, w_b, w_c, w_d = spread(w[j]), spread(w[j + 1]), spread(w[j + 2]), spread(w[j + 3])
    x_a, x_b, x_c, x_d = spread(x[j]), spread(x[j + 1]), spread(x[j + 2]), spread(x[j + 3])
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
    image[j] += across(sum_a)
    image[j + 1] += across(sum_b)
    image[j + 2] += across(sum_c)
    image[j + 3] += across(sum_d)


@inlined
def updated(matrix, place, v_row, w_row, v, w):
    """One vector of the matrix, brought up to date."""
    value = load(matrix, place) - (v_row * w + w_row * v)
    store(matrix, place, value)
    return value


@compiled
def finish(tiles, first, tau, v, w, x, image):
    r"""The vectors of the update that this step leaves: v = x, :math:`w = \tau (A x - \frac\tau2 (x^\top A x) x)`."""
    inner = spread(0.0)
    for t in range(first, tiles):
        inner += load(image, t) * load(x, t)
    half, factor = spread(0.5 * tau * across(inner)), spread(tau)
    for t in range(first, tiles):
        entry = load(x, t)
        store(v, t, entry)
        store(w, t, factor * (load(image, t) - half * entry))


@compiled
def transform(n, matrix, factor, start, end, transposed, vectors):
    """Multiply rows ``start`` to ``end - 1`` of ``vectors`` by Q, or by its transpose, from the reflectors."""
    tiles = -(-n // LANES)
    for step in range(n - 1):
        k = step if transposed else n - 2 - step
        row = k * tiles
        for q in range(start, end):
            mine = q * tiles
            inner = spread(0.0)
            for t in range((k + 1) // LANES, tiles):
                inner += load(matrix, row + t) * load(vectors, mine + t)
            share = spread(across(inner) * factor[k])
            for t in range((k + 1) // LANES, tiles):
                store(vectors, mine + t, load(vectors, mine + t) - share * load(matrix, row + t))
