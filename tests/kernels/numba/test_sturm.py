"""Counts and eigenvalues of tridiagonal matrices against LAPACK, also where the recurrence could leave float64."""

import numpy as np
import pytest
from scipy.linalg import eigvalsh_tridiagonal

pytest.importorskip("numba", reason="Numba is not installed")

from numba import njit

from dgn.kernels.numba.simd_float64 import splat, store
from dgn.kernels.numba.sturm import bisect, count_below, multisect
from dgn.kernels.numba.tridiagonal import factorize, rescale, substitute


@njit
def _rescale(n, diagonal, off_diagonal, square, norm):
    store(norm, 0, rescale(n, diagonal, off_diagonal, square))


@njit
def _solve(n, diagonal, off_diagonal, shift, factors, x):
    factorize(n, diagonal, off_diagonal, splat(shift), factors)
    substitute(n, factors, x, 0)


def vectors(count: int):
    return np.zeros(8 * count)


def matrices(n: int, spectrum: str):
    """Eight tridiagonal matrices: diagonals [n, 8] and what couples neighbours [n - 1, 8]."""
    random = np.random.default_rng(n)
    diagonal, coupling = random.uniform(0, 40, (n, 8)), random.standard_normal((n - 1, 8))
    if spectrum == "decoupled":
        coupling[:] = 0
    if spectrum == "nearly one value":
        diagonal[:], coupling[:] = 3, 1e-17
    if spectrum == "blocks":
        coupling[::3] = 0
    return diagonal, coupling


def lanes_of(diagonal, coupling):
    n = len(diagonal)
    d, e, square, norm = vectors(n + 8), vectors(n + 8), vectors(n + 8), vectors(1)
    d[: 8 * n] = diagonal.ravel()
    e[8 : 8 * n] = coupling.ravel()
    _rescale(n, d, e, square, norm)
    return d, e, square, norm


@pytest.mark.parametrize("spectrum", ["any", "decoupled", "nearly one value", "blocks"])
@pytest.mark.parametrize("n", [2, 3, 4, 23, 300])
def test_eigenvalues_are_exact_to_rounding(n: int, spectrum: str) -> None:
    diagonal, coupling = matrices(n, spectrum)
    d, _, square, norm = lanes_of(diagonal, coupling)
    first, count = 1, min(5, n - 1)
    values = vectors(6)
    bisect(n, d, square, first, count, values, vectors(3), vectors(3))
    result = values.reshape(6, 8)[:count] * norm
    expected = [eigvalsh_tridiagonal(diagonal[:, g], coupling[:, g])[first : first + count] for g in range(8)]
    np.testing.assert_allclose(result, np.transpose(expected), atol=4e-15 * norm.max())
    repeated = lanes_of(np.repeat(diagonal[:, :1], 8, axis=1), np.repeat(coupling[:, :1], 8, axis=1))
    single = np.empty(count)
    multisect(n, repeated[0], repeated[2], first, count, vectors(3), vectors(3), single)
    np.testing.assert_allclose(single * repeated[3][0], expected[0], atol=4e-15 * norm.max())


def test_counts_at_the_ends_and_in_the_middle() -> None:
    diagonal, coupling = matrices(31, "any")
    d, _, square, norm = lanes_of(diagonal, coupling)
    points, below = vectors(3), vectors(3)
    points[:8], points[8:16], points[16:] = -1.0, 0.5, 1.0
    count_below(31, d, square, points, below)
    middle = [(eigvalsh_tridiagonal(diagonal[:, g], coupling[:, g]) < 0.5 * norm[g]).sum() for g in range(8)]
    assert below.reshape(3, 8).tolist() == [[0] * 8, middle, [31] * 8]


@pytest.mark.parametrize("n", [1, 2, 3, 40])
def test_a_shifted_matrix_is_solved(n: int) -> None:
    diagonal, coupling = matrices(n, "any")
    d, e, _, _ = lanes_of(diagonal, coupling)
    right = np.random.default_rng(0).standard_normal((n, 8))
    x = vectors(n)
    x[:] = right.ravel()
    _solve(n, d, e, 0.31, vectors(5 * n), x)
    scaled, off = d[: 8 * n].reshape(n, 8), e[: 8 * n].reshape(n, 8)
    for g in range(8):
        matrix = np.diag(scaled[:, g] - 0.31) + np.diag(off[1:, g], 1) + np.diag(off[1:, g], -1)
        np.testing.assert_allclose(matrix @ x.reshape(n, 8)[:, g], right[:, g], atol=1e-11)
