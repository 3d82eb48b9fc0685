"""The iteration for large components: against LAPACK and spectra in closed form, clustered or not, and its update."""

import subprocess
import sys
from collections.abc import Callable
from math import cos, pi
from unittest.mock import Mock

import numpy as np
import pytest
import torch

pytest.importorskip("numba", reason="Numba is not installed")

import dgn
from dgn import Graph
from dgn.spectral.laplacians import adjacency, normalized
from dgn.spectral.solvers import select
from dgn.spectral.solvers.lobpcg import solve_lobpcg
from dgn.testing import assert_same_eigenspace, collaboration, grid

Build = Callable[[str], Graph]
every_normalization = pytest.mark.parametrize("normalization", [None, "rw", "sym"])
GRAPHS = [
    "path 120", "cycle 120", "star 120", "hypercube 7", "grid 9 13", "grid 11 11", "complete 100", "wheel 120",
    "barbell 50 2", "tree 150 0", "connected 150 1",
]  # fmt: skip


@pytest.fixture
def iterate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every component goes to the iteration, and nothing rescues it."""
    for name, value in {"LARGEST_EXACT": 0, "LARGEST_RESCUE": 0}.items():
        monkeypatch.setattr(select, name, value)
    monkeypatch.setattr(select, "LARGEST_DENSE", 0)


def residuals(graph: Graph, d: dgn.Directions, normalization: str | None, weight: torch.Tensor | None) -> torch.Tensor:
    """Residuals of one component, over what the field needs."""
    matrix = dgn.laplacian(graph, normalization=normalization, edge_weight=weight)
    largest = 1.0 if normalization else float(dgn.laplacian(graph, edge_weight=weight).values().max())
    degree = dgn.laplacian(graph, edge_weight=weight).to_dense().diagonal() if normalization == "rw" else torch.ones(1)
    root = degree.sqrt()[:, None]  # the random-walk Laplacian is symmetric in the inner product of the degrees
    residual = (root * (matrix @ d.potential - d.potential * d.eigenvalues[0])).norm(dim=0)
    residual /= (root * d.potential).norm(dim=0)
    goal = torch.minimum(torch.tensor(2e-8 * largest), 1e-3 * d.eigenvalues[0])
    return residual / goal.clamp(min=2e-13 * largest)


def solved(graph: Graph, normalization: str | None, weight: torch.Tensor | None, count: int, start=None):
    matrix = adjacency(graph, weight)
    symmetric = normalized(matrix, "sym" if normalization else None)
    trivial = np.sqrt(matrix.sum(axis=1)) if normalization else np.ones(graph.num_nodes)
    return symmetric, *solve_lobpcg(matrix, symmetric, trivial / np.linalg.norm(trivial), count, start)


@pytest.mark.parametrize("smallest", [1.0, 1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("normalization", [None, "sym"])
@pytest.mark.parametrize("name", GRAPHS)
def test_pairs_are_the_lowest_and_accurate(name: str, normalization: str | None, smallest: float, build: Build) -> None:
    graph = build(name)
    draw = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    symmetric, values, vectors = solved(graph, normalization, smallest**draw, 5)
    expected = np.linalg.eigvalsh(symmetric.toarray())[1:6]
    norm = 2 * symmetric.diagonal().max()
    np.testing.assert_allclose(values[:4], expected[:4], rtol=1e-5, atol=1e-13 * norm)
    np.testing.assert_allclose(values[4], expected[4], rtol=1e-3)
    residual = np.linalg.norm(symmetric @ vectors - vectors * values, axis=0)[:4]
    assert (residual <= np.maximum(np.minimum(1e-8 * norm, 1e-3 * values[:4]), 1e-13 * norm)).all()
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(5), atol=1e-12)
    trivial = np.sqrt(adjacency(graph, smallest**draw).sum(axis=1)) if normalization else np.ones(graph.num_nodes)
    np.testing.assert_allclose(trivial @ vectors / np.linalg.norm(trivial), 0, atol=1e-12)


@pytest.mark.parametrize("bridge", [1e-2, 1e-4, 1e-6, 1e-8])
def test_one_weak_edge_between_two_halves(bridge: float, build: Build) -> None:
    graph = build("path 120")
    weight = torch.ones(graph.num_edges, dtype=torch.float64)
    weight[graph.edge_index.sum(dim=0) == 101] = bridge  # the edge between nodes 50 and 51
    symmetric, values, vectors = solved(graph, None, weight, 4)
    expected, basis = np.linalg.eigh(symmetric.toarray())
    np.testing.assert_allclose(values[:3], expected[1:4], rtol=1e-4)
    np.testing.assert_allclose(np.abs(basis[:, 1] @ vectors[:, 0]), 1, atol=1e-6)


@pytest.mark.usefixtures("iterate")
@every_normalization
@pytest.mark.parametrize("name", ["grid 9 13", "connected 150 1", "tree 150 0", "barbell 50 2"])
def test_directions_equal_those_of_the_dense_solver(
    name: str, normalization: str | None, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = build(name)
    ours = dgn.directions(graph, k=3, normalization=normalization)
    assert (residuals(graph, ours, normalization, None) <= 1).all()
    monkeypatch.setattr(select, "LARGEST_DENSE", 10**6)
    dense = dgn.directions(graph, k=3, normalization=normalization)
    torch.testing.assert_close(ours.eigenvalues, dense.eigenvalues, rtol=1e-8, atol=0)
    torch.testing.assert_close(ours.gap, dense.gap, atol=1e-4, rtol=0)
    assert torch.equal(ours.repeated(), dense.repeated())
    sure = (dense.sign_is_canonical & ~dense.repeated(1e-3))[0]
    torch.testing.assert_close(ours.potential[:, sure], dense.potential[:, sure], atol=1e-4, rtol=0)


SPECTRA = {
    "path 5000": [2 - 2 * cos(pi * j / 5000) for j in (1, 2, 3)],
    "cycle 5000": [2 - 2 * cos(2 * pi * j / 5000) for j in (1, 1, 2)],
    "star 5000": [1.0, 1.0, 1.0],
    "hypercube 12": [2.0, 2.0, 2.0],
    "grid 70 71": [2 - 2 * cos(pi / 71), 2 - 2 * cos(pi / 70), 4 - 2 * cos(pi / 71) - 2 * cos(pi / 70)],
}


@pytest.mark.parametrize("name", SPECTRA)
def test_large_graphs_have_the_spectrum_known_in_closed_form(
    name: str, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(select, "LARGEST_RESCUE", 0)
    graph = build(name)
    d = dgn.directions(graph, k=3)
    expected = torch.tensor(SPECTRA[name], dtype=torch.float64)
    torch.testing.assert_close(d.eigenvalues[0], expected, rtol=1e-8, atol=0)
    assert (residuals(graph, d, None, None) <= 1).all()
    if "cycle" in name:
        assert d.repeated()[0].tolist() == [True, True, True]


@every_normalization
def test_a_collaboration_graph_beside_small_components(normalization: str | None) -> None:
    edges, n = collaboration(6000, 30000)
    d = dgn.directions(edges, n, k=4, normalization=normalization)
    big = int(d.component.bincount().argmax())
    inside = d.component == big
    matrix = dgn.laplacian(edges, n, normalization)
    potential = d.potential * inside[:, None]
    residual = (matrix @ potential - potential * d.eigenvalues[big]).norm(dim=0) / potential.norm(dim=0)
    scale = 1.0 if normalization else float(dgn.laplacian(edges, n).values().max())
    assert (residual <= 2e-8 * scale).all()
    assert (residual <= 1e-3 * d.eigenvalues[big]).all()
    field = dgn.normalize(dgn.gradient(d.potential, edges), edges, n)
    assert field.isfinite().all()


@every_normalization
def test_relabelling_relabels_the_result(normalization: str | None) -> None:
    edges, n = collaboration(5000, 25000, seed=1)
    name = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    before, after = (dgn.directions(e, n, 3, normalization) for e in (edges, name[edges]))
    big = int(before.component.bincount().argmax())
    assert before.sign_is_canonical[big].all()
    assert not before.repeated(1e-3)[big].any()
    inside = before.component == big
    scale = before.potential[inside].abs().max()
    torch.testing.assert_close(after.potential[name][inside], before.potential[inside], atol=1e-3 * scale, rtol=0)


@every_normalization
def test_rounding_decides_no_sign(normalization: str | None) -> None:
    """Two copies of one graph, joined where they are alike: a mirror maps every second vector or so to its negative."""
    half, n = collaboration(2400, 12000, seed=1)
    edges = torch.cat([half, half + n, torch.stack([torch.arange(6), torch.arange(6) + n])], dim=1)
    d = dgn.directions(edges, 2 * n, 4, normalization)
    big = int(d.component.bincount().argmax())
    inside = (d.component == big)[:n] & (d.component == big)[n:]
    left, right = d.potential[:n][inside], d.potential[n:][inside]
    odd = (left + right).norm(dim=0) < 1e-2 * left.norm(dim=0)
    even = (left - right).norm(dim=0) < 1e-2 * left.norm(dim=0)
    assert inside.sum() > 2100
    assert (odd | even).all()
    assert odd.sum() >= 2
    assert torch.equal(d.sign_is_canonical[big], even)


THREADS = """
import sys, torch, hashlib, dgn
torch.set_num_threads(int(sys.argv[1]))
edges, n = dgn.testing.collaboration(6000, 30000)
directions = dgn.directions(edges, n, k=6)
print(hashlib.sha256(directions.potential.numpy().tobytes() + directions.gap.numpy().tobytes()).hexdigest())
"""


def test_bitwise_reproducible_across_processes_and_threads() -> None:
    seen = set()
    for threads, blas in (("1", "1"), ("3", "2")):
        command = [sys.executable, "-c", THREADS, threads]
        run = subprocess.run(command, capture_output=True, text=True, check=True, env={"OPENBLAS_NUM_THREADS": blas})
        seen.add(run.stdout)
    assert len(seen) == 1


def test_where_the_iteration_fails_an_exact_factorisation_takes_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.spectral.solvers.lobpcg.ITERATIONS", 1)
    graph = Graph(*grid(66, 67))
    d = dgn.directions(graph, k=1)
    assert abs(float(d.eigenvalues[0, 0]) - (2 - 2 * cos(pi / 67))) < 1e-11
    monkeypatch.setattr(select, "LARGEST_RESCUE", 0)
    with pytest.raises(ArithmeticError, match=r"^directions: expected residuals below .*, got .*; .* fewer directions"):
        dgn.directions(graph, k=1)


def test_a_nearly_disconnected_component_is_refused(build: Build) -> None:
    graph = build("path 5000")
    weight = torch.ones(graph.num_edges, dtype=torch.float64)
    weight[graph.edge_index.sum(dim=0) == 5001] = 1e-30
    with pytest.raises(ValueError, match=r"^edge_weight: .* drop the edges of negligible weight"):
        dgn.directions(graph, edge_weight=weight)


def test_weights_beyond_float32_go_to_the_exact_factorisation(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = build("grid 66 67")
    edges = torch.cat([graph.edge_index, torch.stack([torch.arange(19), torch.arange(1, 20)]) + 4421], 1)
    weight = torch.ones(edges.size(1), dtype=torch.float64)
    weight[-19:] = 1e-50  # a tail, to random walks on the rest as good as none
    with_tail, without = dgn.directions(edges, None, 1, "rw", weight), dgn.directions(graph, None, 1, "rw")
    torch.testing.assert_close(with_tail.eigenvalues, without.eigenvalues, atol=1e-10, rtol=0)
    monkeypatch.setattr(select, "LARGEST_RESCUE", 0)
    with pytest.raises(ArithmeticError, match=r"times as much after 1 iterations; .* negligible weight$"):
        dgn.directions(edges, normalization="rw", k=1, edge_weight=weight)


def test_an_iteration_that_breaks_down_is_rescued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "dgn.spectral.solvers.lobpcg.rayleigh_ritz", Mock(side_effect=np.linalg.LinAlgError("no numbers"))
    )
    d = dgn.directions(Graph(*grid(66, 67)), k=1)
    assert abs(float(d.eigenvalues[0, 0]) - (2 - 2 * cos(pi / 67))) < 1e-11


def test_clustered_eigenvalues_around_a_hub_are_separated(build: Build) -> None:
    """All above 1 and 2e-6 apart: neither iteration separates them by the inverse at 0."""
    d = dgn.directions(build("wheel 4199"), k=3)
    expected = torch.tensor([3 - 2 * cos(2 * pi * j / 4199) for j in (1, 1, 2)], dtype=torch.float64)
    torch.testing.assert_close(d.eigenvalues[0], expected, atol=1e-12, rtol=0)


def test_without_numba_the_exact_factorisation_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "find_spec", lambda _: None)
    monkeypatch.setattr("dgn.spectral.solvers.lobpcg.ITERATIONS", 0)
    d = dgn.directions(Graph(*grid(66, 67)), k=1)
    assert abs(float(d.eigenvalues[0, 0]) - (2 - 2 * cos(pi / 67))) < 1e-11


def test_a_repeated_eigenspace_does_not_depend_on_the_numbering(build: Build) -> None:
    graph = build("grid 70 70")
    name = torch.randperm(4900, generator=torch.Generator().manual_seed(0))
    before, after = dgn.directions(graph, k=2), dgn.directions(name[graph.edge_index], 4900, k=2)
    assert before.repeated()[0].tolist() == after.repeated()[0].tolist() == [True, True]
    assert_same_eigenspace(after.potential[name], before.potential, tolerance=1e-4)


@pytest.mark.parametrize("normalization", [None, "rw"])
def test_the_error_of_iteration_becomes_no_direction(normalization) -> None:
    """A tail on the mirror axis of a grid: direction 1 is antisymmetric, so that it vanishes on the tail."""
    width, height, tail = 161, 101, 12
    grid, num_nodes = dgn.testing.grid(width, height)
    chain = torch.cat([torch.tensor([width // 2 * height]), num_nodes + torch.arange(tail)])
    edges = torch.cat([grid, torch.stack([chain[:-1], chain[1:]]), torch.stack([chain[1:], chain[:-1]])], dim=1)
    d = dgn.directions(edges, num_nodes + tail, k=1, normalization=normalization)
    rows = dgn.smoothing(dgn.gradient(d.potential, edges), edges, num_nodes + tail).edge_weight
    total = dgn.divergence(rows, edges, num_nodes + tail)[:, 0]
    assert (total[num_nodes:] == 0).all()
    off_axis = torch.arange(num_nodes) // height != width // 2
    torch.testing.assert_close(total[:num_nodes][off_axis], torch.ones(int(off_axis.sum())).double())
