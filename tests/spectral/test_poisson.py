"""The Poisson equation against the pseudo-inverse, and what it refuses."""

import sys
from collections.abc import Callable

import pytest
import torch

pytest.importorskip("numba", reason="Numba is not installed")

import dgn
from dgn import Graph

Build = Callable[[str], Graph]


def balanced(graph: Graph, columns: int) -> torch.Tensor:
    """Noise that adds up to 0 on each component."""
    label = dgn.directions(graph, k=1).component
    noise = torch.randn(graph.num_nodes, columns, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    count = label.bincount().double()[:, None]
    return noise - (torch.zeros(len(count), columns).double().index_add(0, label, noise) / count)[label]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(
    "name", ["path 40", "grid 9 13", "complete 20", "star 30", "connected 150 1", "path 4 + nodes 2 + grid 5 5"]
)
def test_solutions_equal_those_of_the_pseudo_inverse(name: str, weighted: bool, build: Build) -> None:
    graph = build(name)
    draw = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weight = 0.01**draw if weighted else None
    source = balanced(graph, 3)
    source[:, 1] = 0
    x = dgn.solve_laplacian(graph, source, edge_weight=weight, tolerance=1e-12)
    laplacian = dgn.laplacian(graph, edge_weight=weight).to_dense()
    expected = torch.linalg.pinv(laplacian, hermitian=True) @ source
    torch.testing.assert_close(x, expected, atol=1e-9 * float(expected.abs().max()), rtol=0)
    assert not x[:, 1].any()


def test_the_tolerance_is_kept_on_a_large_graph() -> None:
    edges, n = dgn.testing.collaboration(5000, 25000)
    graph = dgn.as_graph(edges, n)
    source = balanced(graph, 2)
    for tolerance in (1e-3, 1e-10):
        x = dgn.solve_laplacian(graph, source, tolerance=tolerance)
        residual = (dgn.laplacian(graph) @ x - source).norm(dim=0) / source.norm(dim=0)
        assert (residual <= 1.01 * tolerance).all()
    assert torch.equal(x, dgn.solve_laplacian(graph, source, tolerance=1e-10))


def test_without_numba_the_extra_is_named(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    for solve in (
        lambda: dgn.solve_laplacian(build("path 3"), torch.tensor([1.0, 0.0, -1.0])),
        lambda: dgn.flow_potential(torch.ones(4), build("path 3")),
    ):
        with pytest.raises(ImportError, match=r"expected the package numba, got none .* pip install 'dgn\[cpu\]'"):
            solve()


def test_the_shape_of_the_source_is_kept_and_float32_rounding_accepted(build: Build) -> None:
    source = balanced(build("cycle 30"), 1)[:, 0].float()
    x = dgn.solve_laplacian(build("cycle 30"), source)
    assert (x.shape, x.dtype) == ((30,), torch.float64)
    assert dgn.solve_laplacian(build("nodes 0"), torch.zeros(0, 2)).shape == (0, 2)


def test_a_source_without_a_solution_is_refused(build: Build) -> None:
    with pytest.raises(ValueError, match=r"^source: expected a sum of 0 on each .*; subtract the mean"):
        dgn.solve_laplacian(build("path 2 + path 2"), torch.tensor([1.0, 0.0, -1.0, 0.0]))
    with pytest.raises(ValueError, match=r"^source: expected 3 rows"):
        dgn.solve_laplacian(build("path 3"), torch.ones(2))


def test_a_tolerance_below_rounding_is_refused(build: Build) -> None:
    with pytest.raises(ArithmeticError, match=r"^solve_laplacian: expected a residual below .*; pass a larger"):
        dgn.solve_laplacian(build("grid 9 13"), balanced(build("grid 9 13"), 1), tolerance=1e-30)


@pytest.mark.parametrize("unit", [2.0**-900, 2.0**-140, 2.0**140, 2.0**900])
def test_units_of_weights_and_source_change_only_the_unit_of_the_solution(unit: float, build: Build) -> None:
    graph = build("connected 40 1 + path 5 + nodes 1")
    draw = torch.Generator().manual_seed(0)
    weight = torch.rand(graph.num_edges, generator=draw, dtype=torch.float64) + 0.1
    source = torch.zeros(46, 2, dtype=torch.float64)
    source[0], source[7], source[41], source[44] = 1, -1, 3, -3
    expected = dgn.solve_laplacian(graph, source, edge_weight=weight)
    assert expected.isfinite().all()
    assert torch.equal(dgn.solve_laplacian(graph, source * unit, edge_weight=weight), expected * unit)
    assert torch.equal(dgn.solve_laplacian(graph, source, edge_weight=weight * unit), expected / unit)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan")])
def test_a_tolerance_of_0_or_less_is_refused(tolerance: float, build: Build) -> None:
    with pytest.raises(ValueError, match=r"^tolerance: expected a relative residual above 0, got .*; try"):
        dgn.solve_laplacian(build("path 3"), torch.tensor([1.0, 0.0, -1.0]), tolerance=tolerance)
