"""The approximate Cholesky factor: exact on trees, close elsewhere, bitwise reproducible for any number of threads."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

pytest.importorskip("numba", reason="Numba is not installed")

from dgn import Graph
from dgn.spectral.laplacians import adjacency, normalized
from dgn.spectral.solvers.cholesky import Factor, approximate_cholesky, near_numbering, renumbered

Build = Callable[[str], Graph]
FORESTS = ["path 2", "path 50", "star 40", "tree 200 0", "path 7 + nodes 2 + tree 30 1 + star 5"]
OTHERS = ["cycle 40", "complete 30", "hypercube 6", "grid 9 13", "wheel 60", "barbell 20 5", "connected 200 1"]


def weighted(graph: Graph, smallest: float = 0.01) -> csr_array:
    draw = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return adjacency(graph, smallest**draw)


def product(factor: Factor) -> np.ndarray:
    """The matrix that a factor stands for."""
    n = len(factor.order)
    lower = np.eye(n)
    for c in range(n):
        column = slice(factor.first[c], factor.first[c + 1])
        lower[factor.row[column], c] = -factor.entry[column]
    pivot = np.divide(1.0, factor.inverse, out=np.zeros(n), where=factor.inverse > 0)
    matrix = np.empty((n, n))
    matrix[np.ix_(factor.order, factor.order)] = lower * pivot @ lower.T
    return matrix


@pytest.mark.parametrize("name", FORESTS)
def test_on_a_forest_the_factor_is_exact(name: str, build: Build) -> None:
    matrix = weighted(build(name))
    expected = normalized(matrix, None).toarray()
    np.testing.assert_allclose(product(approximate_cholesky(matrix)), expected, atol=1e-6 * expected.max())


@pytest.mark.parametrize("name", OTHERS)
def test_every_node_is_eliminated_once_and_the_constant_vector_is_kept(name: str, build: Build) -> None:
    factor = approximate_cholesky(weighted(build(name)))
    n = len(factor.order)
    assert sorted(factor.order.tolist()) == list(range(n))
    column = np.repeat(np.arange(n), np.diff(factor.first))
    assert (factor.row > column).all()
    assert (factor.inverse[:-1] > 0).all()
    assert factor.inverse[-1] == 0
    matrix = product(factor)
    np.testing.assert_allclose(matrix.sum(axis=1), 0, atol=1e-5 * matrix.max())


@pytest.mark.parametrize("name", OTHERS)
def test_the_factor_is_close_to_the_laplacian(name: str, build: Build) -> None:
    """All generalised eigenvalues of the pair, but that of the constant vector, lie around 1."""
    matrix = weighted(build(name))
    values, vectors = np.linalg.eigh(normalized(matrix, None).toarray())
    half = vectors[:, 1:] / np.sqrt(values[1:])
    ratio = np.linalg.eigvalsh(half.T @ product(approximate_cholesky(matrix)) @ half)
    assert ratio.min() > 0.1
    assert ratio.max() < 10


def test_the_expectation_over_seeds_is_the_laplacian(build: Build) -> None:
    matrix = weighted(build("complete 8"), 0.3)
    expected = normalized(matrix, None).toarray()
    mean = sum(product(approximate_cholesky(matrix, seed)) for seed in range(1000)) / 1000
    assert np.abs(mean - expected).max() < 0.02 * expected.max()
    assert np.abs(product(approximate_cholesky(matrix, 1)) - expected).max() > 0.05 * expected.max()


@pytest.mark.parametrize("columns", [1, 3, 8, 21])
def test_solving_applies_the_inverse_to_each_column(columns: int, build: Build) -> None:
    matrix = weighted(build("grid 9 13"))
    factor = approximate_cholesky(matrix)
    right = np.random.default_rng(0).standard_normal((117, columns))
    right -= right.mean(axis=0)
    x = factor.solve(right)
    np.testing.assert_allclose(product(factor) @ x, right, atol=1e-4)
    wide = np.zeros((117, columns + 5))
    factor.solve(right, wide, first=2)
    np.testing.assert_array_equal(wide[:, 2:-3], x)
    assert not wide[:, :2].any()
    assert not wide[:, -3:].any()


def test_bitwise_reproducible_for_any_number_of_threads(build: Build) -> None:
    matrix = weighted(build("connected 300 2"))
    right = np.random.default_rng(0).standard_normal((300, 13))
    before, solutions = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            solutions.append(approximate_cholesky(matrix).solve(right).tobytes())
    finally:
        torch.set_num_threads(before)
    assert len(set(solutions)) == 1
    assert approximate_cholesky(matrix, seed=1).solve(right).tobytes() != solutions[0]


def test_near_numbering_is_a_permutation_that_brings_neighbours_together(build: Build) -> None:
    name = torch.randperm(900, generator=torch.Generator().manual_seed(0))
    matrix = adjacency(Graph(name[build("grid 30 30").edge_index], 900))
    order = near_numbering(matrix)
    assert sorted(order.tolist()) == list(range(900))
    row, column = renumbered(matrix, order).nonzero()
    assert np.abs(row.astype(int) - column).max() < 100


def test_unsorted_columns_make_no_difference(build: Build) -> None:
    matrix = weighted(build("connected 50 1"))
    turned = csr_array((matrix.data.copy(), matrix.indices.copy(), matrix.indptr), shape=matrix.shape)
    for begin, end in zip(turned.indptr[:-1], turned.indptr[1:], strict=True):
        turned.indices[begin:end], turned.data[begin:end] = (
            turned.indices[begin:end][::-1],
            turned.data[begin:end][::-1],
        )
    turned.has_sorted_indices = False
    np.testing.assert_array_equal(approximate_cholesky(turned).entry, approximate_cholesky(matrix).entry)
