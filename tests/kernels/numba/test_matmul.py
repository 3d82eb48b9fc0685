"""Products of many rows on the CPU against NumPy, and the same bits for every way to share the rows out."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("numba", reason="Numba is not installed")

from dgn.kernels.numba import matmul as cpu_products
from dgn.nn.fused.cpu_rows import columns, cut_rows

ROWS = 61  # no multiple of a block
SIZES = pytest.mark.parametrize(("width", "out"), [(5, 16), (45, 48), (20, 80), (33, 112)])
TYPES = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def numbers(*shape, dtype, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(found, expected, dtype):
    np.testing.assert_allclose(found, expected, rtol=1e-4 if dtype == np.float32 else 1e-11, atol=1e-4)


@SIZES
@TYPES
def test_rows_times_a_matrix(width, out, dtype):
    spans = columns(width, width)
    left, start = numbers(ROWS, int(spans[1, 1]) + 3, dtype=dtype), numbers(1, out, dtype=dtype, seed=1)
    right, found = numbers(int(spans[1, 1]), out, dtype=dtype, seed=2), np.empty((ROWS, out), dtype)
    unread = np.ones(left.shape[1], bool)
    for first, last in spans:
        unread[first:last] = False
    left[:, unread] = np.nan  # what fills rows up may be anything
    cpu_products.multiply_rows(0, ROWS, left, right, start, found, spans)
    real = ~unread[: right.shape[0]]
    check(found, left[:, : len(real)][:, real] @ right[real] + start, dtype)
    again = np.empty_like(found)
    for first, last in ((0, 3), (3, 30), (30, ROWS)):
        cpu_products.multiply_rows(first, last, left, right, start, again, spans)
    np.testing.assert_array_equal(again, found)


@TYPES
@pytest.mark.parametrize("sorted_by_degree", [True, False])
def test_groups_of_rows_have_their_own_matrices(dtype, sorted_by_degree):
    bounds, order = np.array([0, 4, 40, ROWS]), np.random.default_rng(3).permutation(ROWS)
    order = order if sorted_by_degree else np.empty(0, np.int64)
    rows = order if sorted_by_degree else np.arange(ROWS)
    left, right = numbers(ROWS, 32, dtype=dtype), numbers(3, 32, 48, dtype=dtype, seed=1)
    start, found = numbers(ROWS, 48, dtype=dtype, seed=2), np.empty((ROWS, 48), dtype)
    for first, last in ((0, 20), (20, ROWS)):
        cpu_products.multiply_groups(first, last, left, right, bounds, order, start, found, columns(32))
    products = np.concatenate([left[a:b] @ right[k] for k, (a, b) in enumerate(pairwise(bounds))])
    check(found[rows], products + start[rows], dtype)

    turned = np.ascontiguousarray(right.transpose(0, 2, 1))
    sorted_start, own, back = np.empty((ROWS, 48), dtype), np.empty((ROWS, 48), dtype), np.empty((ROWS, 32), dtype)
    cpu_products.multiply_groups_back(0, ROWS, start, turned, bounds, order, sorted_start, own, back, 48)
    np.testing.assert_array_equal(own, start)
    np.testing.assert_array_equal(sorted_start, start[rows])
    pairs = enumerate(pairwise(bounds))
    check(back, np.concatenate([start[rows][a:b] @ turned[k] for k, (a, b) in pairs]), dtype)


@SIZES
@TYPES
def test_tall_products_in_pieces(width, out, dtype):
    pieces, high = cut_rows([0, 700, 1300]), -(-width // 16) * 16
    left, right = numbers(1300, high, dtype=dtype), numbers(1300, out, dtype=dtype, seed=1)
    found, sums = np.empty((len(pieces), high, out), dtype), np.empty((len(pieces), high), dtype)
    cpu_products.multiply_turned(0, len(pieces), pieces, left, right, found, sums)
    for (first, last, _), product, total in zip(pieces, found, sums, strict=True):
        np.testing.assert_allclose(product, left[first:last].T @ right[first:last], rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(total, left[first:last].sum(0), rtol=1e-3, atol=1e-3)
