"""SIMD vectors behave like NumPy arrays of eight float64, lane by lane."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed")

from numba import njit

from dgn.kernels.numba.simd_float64 import aligned_zeros, copysign, fabs, load, splat, sqrt, store, sum_lanes, where


@njit
def _evaluate(a, out):
    x, y = load(a, 0), load(a, 1)
    store(out, 0, x + y)
    store(out, 1, x - y)
    store(out, 2, x / y)
    store(out, 3, where((x < y) ^ (y < splat(0.0)), x, y))
    store(out, 4, sqrt(fabs(x)))
    store(out, 5, copysign(x, y))
    x += y
    x *= y
    x -= y
    store(out, 6, x)
    return sum_lanes(y)


def test_every_operation_works_lane_by_lane() -> None:
    a, out = np.random.default_rng(0).standard_normal(16), np.zeros(56)
    total = _evaluate(a, out)
    x, y = a[:8], a[8:]
    chosen = np.where((x < y) ^ (y < 0), x, y)
    expected = x + y, x - y, x / y, chosen, np.sqrt(np.abs(x)), np.copysign(x, y), (x + y) * y - y
    np.testing.assert_allclose(out.reshape(7, 8), expected, rtol=1e-15, atol=1e-15)
    assert total == pytest.approx(y.sum(), abs=1e-15)


@njit
def _allocate(count):
    array = aligned_zeros(count)
    return len(array), np.abs(array).max(), array.ctypes.data


def test_aligned_zeros_are_zero_and_start_at_a_cache_line() -> None:
    length, largest, address = _allocate(5)
    assert (length, largest, address % 64) == (40, 0, 0)
