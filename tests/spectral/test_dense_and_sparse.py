"""The sparse solver agrees with the dense one, and both with spectra known in closed form."""

from collections.abc import Callable, Iterator
from math import cos, pi
from unittest.mock import Mock

import numpy as np
import pytest
import torch

import dgn
from dgn import Directions, Graph
from dgn.spectral.solvers import select
from dgn.spectral.solvers.shift_invert import solve_shift_invert
from dgn.testing import assert_same_eigenspace

every_normalization = pytest.mark.parametrize("normalization", [None, "rw", "sym"])

SMALL = [
    "path 120",
    "cycle 120",
    "star 120",
    "hypercube 7",
    "grid 9 13",
    "complete 100",
    "wheel 120",
    "barbell 50 2",
    "tree 150 0",
    "connected 150 1",
]


@pytest.fixture
def sparse_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mock]:
    """Counts the calls of the sparse solver."""
    calls = Mock(side_effect=solve_shift_invert)
    monkeypatch.setattr("dgn.spectral.solvers.components.solve_shift_invert", calls)
    return calls


def both(
    graph: Graph, normalization: str | None, weight: torch.Tensor | None, monkeypatch: pytest.MonkeyPatch
) -> tuple[Directions, Directions]:
    """The directions by the dense and by the sparse route."""
    results = []
    for largest in (10**6, 0):
        monkeypatch.setattr(select, "LARGEST_DENSE", largest)
        results.append(dgn.directions(graph, k=3, normalization=normalization, edge_weight=weight))
    return results[0], results[1]


def assert_agree(dense: Directions, sparse: Directions, may_doubt: bool = False) -> None:
    """``may_doubt``: the sparse route, whose error is larger, may leave a sign open that the dense one decides."""
    torch.testing.assert_close(sparse.eigenvalues, dense.eigenvalues, atol=1e-10, rtol=0)
    torch.testing.assert_close(sparse.gap, dense.gap, atol=1e-9, rtol=0)
    torch.testing.assert_close(sparse.repeated(), dense.repeated())
    simple = ~dense.repeated()[0]
    fixed = simple & sparse.sign_is_canonical[0]
    certain = simple & dense.sign_is_canonical[0]
    assert torch.equal(fixed, fixed & certain if may_doubt else certain)
    torch.testing.assert_close(sparse.potential[:, fixed], dense.potential[:, fixed], atol=1e-7, rtol=0)
    for column in torch.nonzero(simple & ~fixed).flatten().tolist():
        assert_same_eigenspace(sparse.potential[:, [column]], dense.potential[:, [column]], tolerance=1e-7)


@every_normalization
@pytest.mark.parametrize("graph", SMALL, indirect=True)
def test_sparse_equals_dense(
    graph: Graph, normalization: str | None, monkeypatch: pytest.MonkeyPatch, sparse_calls: Mock
) -> None:
    dense, sparse = both(graph, normalization, None, monkeypatch)
    assert sparse_calls.call_count == 1
    assert_agree(dense, sparse)


@every_normalization
@pytest.mark.parametrize("smallest", [1e-1, 1e-3, 1e-6])
@pytest.mark.parametrize("graph", ["path 120", "connected 150 2", "grid 9 13"], indirect=True)
def test_sparse_equals_dense_with_weights(
    graph: Graph, normalization: str | None, smallest: float, monkeypatch: pytest.MonkeyPatch, sparse_calls: Mock
) -> None:
    draw = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    dense, sparse = both(graph, normalization, smallest**draw, monkeypatch)
    assert sparse_calls.call_count == 1
    assert_agree(dense, sparse)


@every_normalization
@pytest.mark.parametrize("bridge", [1e-2, 1e-4, 1e-6, 1e-8])
def test_sparse_equals_dense_where_one_weak_edge_joins_two_halves(
    build: Callable[[str], Graph],
    normalization: str | None,
    bridge: float,
    monkeypatch: pytest.MonkeyPatch,
    sparse_calls: Mock,
) -> None:
    graph = build("path 120")
    weight = torch.ones(graph.num_edges, dtype=torch.float64)
    weight[(graph.edge_index.sum(dim=0) == 101)] = bridge  # the edge between nodes 50 and 51
    dense, sparse = both(graph, normalization, weight, monkeypatch)
    assert sparse_calls.call_count == 1
    assert_agree(dense, sparse, may_doubt=bridge < 1e-7)  # an odd vector of one half, but for what crosses the bridge


@every_normalization
@pytest.mark.parametrize("bridge", [1e-2, 1e-6, 1e-10])
def test_a_weak_edge_lets_no_constant_into_a_dense_vector(normalization: str | None, bridge: float) -> None:
    edges, n = dgn.testing.complete(60)
    edges = torch.cat([edges, edges + n, torch.tensor([[0], [n]])], dim=1)
    weight = torch.ones(edges.size(1), dtype=torch.float64)
    weight[-1] = bridge
    name = torch.randperm(2 * n, generator=torch.Generator().manual_seed(0))
    d = dgn.directions(name[edges], k=1, normalization=normalization, edge_weight=weight)
    degree = dgn.laplacian(name[edges], edge_weight=weight).to_dense().diagonal()
    trivial = {None: torch.ones_like(degree), "rw": degree, "sym": degree.sqrt()}[normalization]
    assert abs(float(trivial @ d.potential[:, 0]) / float(trivial.norm())) < 1e-13
    assert not d.sign_is_canonical.any()  # the two halves are alike


SPECTRA: dict[tuple[str, str | None], list[float]] = {
    ("cycle 1000", None): [2 - 2 * cos(2 * pi * j / 1000) for j in (1, 1, 2)],
    ("cycle 1000", "rw"): [1 - cos(2 * pi * j / 1000) for j in (1, 1, 2)],
    ("path 1000", None): [2 - 2 * cos(pi * j / 1000) for j in (1, 2, 3)],
    ("path 1000", "rw"): [1 - cos(pi * j / 999) for j in (1, 2, 3)],
    ("hypercube 10", None): [2.0, 2.0, 2.0],
    ("hypercube 10", "rw"): [0.2, 0.2, 0.2],
    ("star 1000", None): [1.0, 1.0, 1.0],
    ("star 1000", "rw"): [1.0, 1.0, 1.0],
    ("grid 20 31", None): [2 - 2 * cos(pi / 31), 2 - 2 * cos(pi / 20), 4 - 2 * cos(pi / 31) - 2 * cos(pi / 20)],
    ("complete 350", None): [350.0, 350.0, 350.0],
    ("complete 350", "rw"): [350 / 349] * 3,
    ("wheel 499", None): [3 - 2 * cos(2 * pi * j / 499) for j in (1, 1, 2)],
}


@pytest.mark.parametrize(
    ("name", "normalization", "spectrum"),
    [
        pytest.param(name, as_asked, spectrum, id=f"{name}-{as_asked}")
        for (name, normalization), spectrum in SPECTRA.items()
        for as_asked in ([None] if normalization is None else ["rw", "sym"])
    ],
)
def test_large_graphs_have_the_spectrum_known_in_closed_form(
    build: Callable[[str], Graph], name: str, normalization: str | None, spectrum: list[float], sparse_calls: Mock
) -> None:
    d = dgn.directions(build(name), k=3, normalization=normalization)
    assert sparse_calls.call_count == 1
    torch.testing.assert_close(d.eigenvalues[0], torch.tensor(spectrum, dtype=torch.float64), atol=1e-11, rtol=0)


@every_normalization
@pytest.mark.parametrize(
    "graph",
    [
        "cycle 1000",
        "path 1000",
        "hypercube 10",
        "star 1000",
        "grid 20 31",
        "wheel 499",
        "barbell 200 2",
        "tree 1000 1",
        "connected 2000 2",
    ],
    indirect=True,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_large_graphs_have_accurate_orthonormal_columns(
    graph: Graph, normalization: str | None, weighted: bool, sparse_calls: Mock
) -> None:
    """Residuals as the field needs them: 1e-8 of the norm of the matrix, 1e-3 of the eigenvalue."""
    draw = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight = 0.1 + draw if weighted else None
    d = dgn.directions(graph, k=4, normalization=normalization, edge_weight=weight)
    assert sparse_calls.call_count == 1
    degree = dgn.laplacian(graph, edge_weight=weight).to_dense().diagonal()
    matrix = dgn.laplacian(graph, normalization=normalization, edge_weight=weight)
    residual = (matrix @ d.potential - d.potential * d.eigenvalues).norm(dim=0)
    norm = 2 * matrix.to_dense().diagonal().max()
    assert (residual <= torch.minimum(1e-8 * norm, 1e-3 * d.eigenvalues[0])).all()
    mu = degree / degree.mean() if normalization == "rw" else torch.ones_like(degree)
    gram = d.potential.T @ (mu[:, None] * d.potential)
    torch.testing.assert_close(gram, torch.eye(4, dtype=torch.float64), atol=1e-9, rtol=0)  # entries set to 0
    trivial = degree.sqrt() / degree.mean().sqrt() if normalization == "sym" else torch.ones_like(degree)
    assert ((mu * trivial) @ d.potential).abs().max() < 1e-8


@every_normalization
@pytest.mark.parametrize("seed", range(2))
def test_lowest_eigenvalues_of_large_random_graphs_are_not_missed(
    build: Callable[[str], Graph], normalization: str | None, seed: int
) -> None:
    graph = build(f"connected 600 {seed}")
    matrix = dgn.laplacian(graph, normalization="sym" if normalization else None).to_dense().numpy()
    expected = torch.from_numpy(np.linalg.eigvalsh(matrix)[1:7])
    d = dgn.directions(graph, k=6, normalization=normalization)
    torch.testing.assert_close(d.eigenvalues[0], expected, atol=1e-11, rtol=0)


@every_normalization
def test_a_large_component_beside_small_ones_is_solved_alone(
    build: Callable[[str], Graph], normalization: str | None
) -> None:
    d = dgn.directions(build("path 4 + tree 400 3 + nodes 1"), k=3, normalization=normalization)
    alone = dgn.directions(build("tree 400 3"), k=3, normalization=normalization)
    torch.testing.assert_close(d.potential[4:404], alone.potential, atol=1e-12, rtol=0)
    torch.testing.assert_close(d.eigenvalues[1:2], alone.eigenvalues, atol=1e-14, rtol=0)


@pytest.mark.parametrize("graph", ["cycle 1000", "hypercube 10", "tree 1000 1"], indirect=True)
def test_the_sparse_solver_is_bitwise_reproducible(graph: Graph) -> None:
    first, second = (dgn.directions(graph, k=3).potential.numpy().tobytes() for _ in range(2))
    assert first == second


@every_normalization
def test_relabelling_a_large_graph_relabels_the_result(
    build: Callable[[str], Graph], normalization: str | None
) -> None:
    graph = build("connected 500 4")
    name = torch.randperm(500, generator=torch.Generator().manual_seed(0))
    before = dgn.directions(graph, k=3, normalization=normalization)
    after = dgn.directions(name[graph.edge_index], 500, 3, normalization)
    assert before.sign_is_canonical.all()
    assert not before.repeated(1e-3).any()
    torch.testing.assert_close(after.potential[name], before.potential, atol=1e-7, rtol=0)


def test_large_k_goes_to_the_dense_solver(build: Callable[[str], Graph], sparse_calls: Mock) -> None:
    d = dgn.directions(build("path 320"), k=319)
    assert not sparse_calls.called
    expected = torch.tensor([2 - 2 * cos(pi * j / 320) for j in range(1, 320)], dtype=torch.float64)
    torch.testing.assert_close(d.eigenvalues[0], expected, atol=1e-12, rtol=0)


def test_a_residual_that_is_too_large_is_refused(
    build: Callable[[str], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"ACCURACY": 1e-30, "ROUNDING": 1e-30, "LARGEST_FALLBACK": 0, "RESTARTS": 3}.items():
        monkeypatch.setattr(f"dgn.spectral.solvers.shift_invert.{name}", value)
    with pytest.raises(ArithmeticError, match=r"^directions: expected residuals below .*, got .*; .* compute fewer"):
        dgn.directions(build("path 400"))


def test_a_nearly_disconnected_component_is_refused_by_the_fallback(
    build: Callable[[str], Graph], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dgn.spectral.solvers.shift_invert.RESTARTS", 0)
    graph = build("path 400")
    weight = torch.ones(graph.num_edges, dtype=torch.float64)
    weight[graph.edge_index.sum(dim=0) == 401] = 1e-20
    with pytest.raises(ValueError, match=r"^edge_weight: .* drop the edges of negligible weight"):
        dgn.directions(graph, k=1, edge_weight=weight)
