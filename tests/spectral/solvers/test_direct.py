"""The direct solver agrees with LAPACK to rounding, also where eigenvalues repeat, for any number of threads."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

pytest.importorskip("numba", reason="Numba is not installed")

import dgn
from dgn import Graph
from dgn.graph.components import components, members
from dgn.spectral.laplacians import adjacency, normalized
from dgn.spectral.solvers import select
from dgn.spectral.solvers.direct import Edges, solve_direct

GRAPHS = (
    "path 2", "path 3", "path 23", "path 300", "cycle 24", "cycle 3", "complete 20", "star 30", "hypercube 6",
    "grid 5 5", "grid 4 3 2", "path 3 + cycle 8 + nodes 2 + complete 5 + path 40", "cycle 48", "cycle 49",
    "complete 60", "star 100", "hypercube 7", "path 47 + path 48 + path 49 + star 50 + cycle 57 + complete 64",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _always_direct(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "MANY_NODES", 0)


def solved(graph: Graph, symmetric: bool, weight: torch.Tensor | None, count: int):
    matrix = adjacency(graph, weight)
    label = components(matrix)
    sizes = np.bincount(label)
    laplacian = normalized(matrix, "sym" if symmetric else None).toarray()
    chosen = np.flatnonzero(sizes > 1)
    values, vectors, degree, _ = solve_direct(Edges.of(matrix), label, members(label), chosen, count, symmetric)
    np.testing.assert_allclose(degree, matrix.sum(axis=1), rtol=1e-14)
    return laplacian, label, sizes, (values, vectors)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("name", GRAPHS)
def test_values_residuals_and_orthogonality_are_exact_to_rounding(
    name: str, symmetric: bool, weighted: bool, build: Callable[[str], Graph]
) -> None:
    graph = build(name)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0)) + 0.1 if weighted else None
    laplacian, label, sizes, (values, vectors) = solved(graph, symmetric, weight, 11)
    for member, size in enumerate(sizes):
        nodes, num_pairs = np.flatnonzero(label == member), min(11, size - 1)
        block = laplacian[np.ix_(nodes, nodes)]
        columns, scale = vectors[nodes][:, :num_pairs], max(np.abs(block).max(), 1.0)
        expected = np.linalg.eigvalsh(block)[1 : num_pairs + 1]
        np.testing.assert_allclose(values[member, :num_pairs], expected, atol=1e-13 * scale)
        np.testing.assert_allclose(block @ columns, columns * values[member, :num_pairs], atol=1e-13 * scale)
        np.testing.assert_allclose(columns.T @ columns, np.eye(num_pairs), atol=1e-13)
        assert np.isnan(values[member, num_pairs:]).all()
        assert (vectors[nodes][:, num_pairs:] == 0).all()


@pytest.mark.parametrize("normalization", [None, "rw", "sym"])
def test_directions_do_not_depend_on_the_solver(normalization, monkeypatch, build) -> None:
    graph = build("path 30 + grid 7 4 + star 9")
    direct = dgn.directions(graph, k=3, normalization=normalization)
    monkeypatch.setattr(select, "MANY_NODES", np.inf)
    dense = dgn.directions(graph, k=3, normalization=normalization)
    torch.testing.assert_close(direct.eigenvalues, dense.eigenvalues, atol=1e-12, rtol=0, equal_nan=True)
    sure = (direct.sign_is_canonical & ~direct.repeated())[direct.component]
    torch.testing.assert_close(direct.potential[sure], dense.potential[sure], atol=1e-10, rtol=0)
    assert sure.float().mean() > 0.2


def test_without_numba_torch_takes_over(monkeypatch, build) -> None:
    graph = build("cycle 12 + star 60")
    monkeypatch.setattr(select, "MANY_NODES", np.inf)
    dense = dgn.directions(graph, k=3)
    monkeypatch.setattr(select, "MANY_NODES", 0)
    monkeypatch.setattr(select, "find_spec", lambda _: None)
    assert torch.equal(dgn.directions(graph, k=3).potential, dense.potential)


MIXED = " + ".join(
    ["path 9", "cycle 12", "grid 4 5", "star 7", "path 12"] * 20 + ["complete 50", "cycle 70", "tree 53 1"] * 5
)


def test_bitwise_identical_for_any_number_of_threads(build) -> None:
    graph = build(MIXED)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(dgn.directions(graph, k=4))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert torch.equal(results[0].potential, other.potential)
        assert torch.equal(results[0].sign_is_canonical, other.sign_is_canonical)


@pytest.mark.parametrize("normalization", [None, "rw"])
def test_bitwise_identical_alone_and_in_a_batch(normalization, build) -> None:
    graph = build(MIXED)
    together = dgn.directions(graph, k=4, normalization=normalization)
    for member in (0, 1, 2, 17, 99, 100, 101, 102, 114):
        nodes = (together.component == member).nonzero().squeeze(1)
        in_component = together.component[graph.edge_index[0]] == member
        alone = dgn.directions(
            graph.edge_index[:, in_component] - nodes[0], len(nodes), k=4, normalization=normalization
        )
        assert torch.equal(alone.potential, together.potential[nodes])
        assert torch.equal(alone.eigenvalues[0].nan_to_num(), together.eigenvalues[member].nan_to_num())


@pytest.mark.parametrize("seed", range(4))
def test_edge_lists_agree_with_their_matrix(seed, monkeypatch) -> None:
    draw = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, 200, (2, 230), generator=draw)  # one direction, self-loops, parallel edges, any order
    edges[:, 100:130] = edges[:, :30].flip(0)
    weight = torch.rand(230, generator=draw, dtype=torch.float64) + 0.2
    weight[::7] = 0
    for edge_weight in (None, weight):
        direct = dgn.directions(edges, 203, k=3, edge_weight=edge_weight)
        monkeypatch.setattr(select, "MANY_NODES", np.inf)
        dense = dgn.directions(edges, 203, k=3, edge_weight=edge_weight)
        monkeypatch.setattr(select, "MANY_NODES", 0)
        assert torch.equal(direct.component, dense.component)
        torch.testing.assert_close(direct.eigenvalues, dense.eigenvalues, atol=1e-12, rtol=0, equal_nan=True)
        torch.testing.assert_close(direct.gap, dense.gap, atol=1e-9, rtol=0, equal_nan=True)
        sure = (direct.sign_is_canonical & (direct.gap > 1e-3) & ~direct.repeated(1e-3))[direct.component]
        torch.testing.assert_close(direct.potential[sure], dense.potential[sure], atol=1e-9, rtol=0)


def test_small_components_beside_a_large_one(build) -> None:
    parts = ["path 9", "path 400", "complete 51", "star 6"]
    together = dgn.directions(build(" + ".join(parts)), k=2)
    for member, part in enumerate(parts):
        alone = dgn.directions(build(part), k=2)
        nodes = together.component == member
        torch.testing.assert_close(together.eigenvalues[member], alone.eigenvalues[0], atol=1e-12, rtol=0)
        if part != "path 400":
            assert torch.equal(together.potential[nodes], alone.potential)


@pytest.mark.parametrize("nodes", [0, 1, 5])
def test_no_edges_give_zeros(nodes) -> None:
    result = dgn.directions(torch.empty(2, 0, dtype=torch.long), nodes, k=3)
    assert result.potential.shape == (nodes, 3)
    assert (result.potential == 0).all()
    assert result.eigenvalues.isnan().all()


def test_a_nearly_disconnected_component_is_refused() -> None:
    weight = torch.ones(9, dtype=torch.float64)
    weight[4] = 1e-30
    edges = torch.arange(10).unfold(0, 2, 1).t()
    with pytest.raises(ValueError, match=r"edge_weight: .* 0 to rounding .* drop the edges of negligible weight"):
        dgn.directions(edges, 10, edge_weight=weight)


def test_a_heavy_loop_does_not_count() -> None:
    centre = 4 * torch.arange(2500)
    stars = torch.cat([torch.stack([centre, centre + leaf]) for leaf in (1, 2, 3)] + [torch.zeros(2, 1).long()], dim=1)
    weight = torch.ones(stars.size(1), dtype=torch.float64)
    weight[-1] = 1e170
    values = dgn.directions(stars, 10_000, 3, edge_weight=weight).eigenvalues
    torch.testing.assert_close(values, torch.tensor([1.0, 1.0, 4.0], dtype=torch.float64).expand(2500, 3))
