"""Vectors of eight numbers behave like NumPy arrays of eight, lane by lane."""

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed")

from numba import njit

from dgn.kernels.numba.simd_float64 import across, load, magnitude, root, signed, spread, store, vectors, where


@njit
def _evaluate(a, out):
    x, y = load(a, 0), load(a, 1)
    store(out, 0, x + y)
    store(out, 1, x - y)
    store(out, 2, x / y)
    store(out, 3, where((x < y) ^ (y < spread(0.0)), x, y))
    store(out, 4, root(magnitude(x)))
    store(out, 5, signed(x, y))
    x += y
    x *= y
    x -= y
    store(out, 6, x)
    return across(y)


def test_every_operation_works_lane_by_lane() -> None:
    a, out = np.random.default_rng(0).standard_normal(16), np.zeros(56)
    total = _evaluate(a, out)
    x, y = a[:8], a[8:]
    chosen = np.where((x < y) ^ (y < 0), x, y)
    expected = x + y, x - y, x / y, chosen, np.sqrt(np.abs(x)), np.copysign(x, y), (x + y) * y - y
    np.testing.assert_allclose(out.reshape(7, 8), expected, rtol=1e-15, atol=1e-15)
    assert total == pytest.approx(y.sum(), abs=1e-15)


@njit
def _room(count):
    room = vectors(count)
    return len(room), np.abs(room).max(), room.ctypes.data


def test_room_is_empty_and_begins_at_a_cache_line() -> None:
    length, largest, address = _room(5)
    assert (length, largest, address % 64) == (40, 0, 0)
