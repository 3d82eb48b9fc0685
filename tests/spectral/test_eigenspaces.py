"""A repeated eigenspace has one basis, whichever solver finds it, and vectors stay orthonormal across weak links."""

from collections.abc import Callable

import numpy as np
import pytest
import torch

import dgn
from dgn import Directions, Graph
from dgn.data.precompute.directions import add_directions
from dgn.spectral.degeneracy import canonical_basis
from dgn.spectral.solvers import select
from dgn.testing import cycle

SYMMETRIC = [
    "cycle 6",
    "cycle 48",
    "star 3",
    "star 60",
    "complete 9",
    "complete 70",
    "hypercube 4",
    "grid 5 5",
    "wheel 7",
]


def in_large_batch(graph: Graph, k: int, normalization: str | None) -> Directions:
    """The directions of the graph as the first of a batch of at least 10,000 nodes."""
    copies = -(-select.MANY_NODES // graph.num_nodes)
    batch = torch.cat([graph.edge_index + copy * graph.num_nodes for copy in range(copies)], dim=1)
    return dgn.directions(batch, copies * graph.num_nodes, k=k, normalization=normalization)


@pytest.mark.parametrize("normalization", [None, "rw", "sym"])
@pytest.mark.parametrize("k", [1, 2, 3, 5])
@pytest.mark.parametrize("graph", SYMMETRIC, indirect=True)
def test_a_graph_has_one_basis_alone_and_in_a_large_batch(graph: Graph, k: int, normalization: str | None) -> None:
    pytest.importorskip("numba", reason="Numba is not installed")
    alone = dgn.directions(graph, k=k, normalization=normalization)
    batched = in_large_batch(graph, k, normalization)
    for copy in (0, 1):
        nodes = batched.component == copy
        torch.testing.assert_close(batched.potential[nodes], alone.potential, atol=1e-11, rtol=0)


@pytest.mark.parametrize("graph", SYMMETRIC, indirect=True)
def test_the_basis_does_not_depend_on_how_much_of_the_eigenspace_is_wanted(graph: Graph) -> None:
    wide = dgn.directions(graph, k=min(graph.num_nodes - 1, 12)).potential
    for k in (1, 2, 3):
        torch.testing.assert_close(dgn.directions(graph, k=k).potential, wide[:, :k], atol=1e-11, rtol=0)


def test_a_basis_does_not_depend_on_the_vectors_that_span_the_space() -> None:
    random = np.random.default_rng(0)
    for n, m in ((5, 1), (8, 3), (40, 20), (60, 59)):
        vectors = np.linalg.qr(random.standard_normal((n, m)))[0]
        basis = canonical_basis(vectors, m)
        rotated = vectors @ np.linalg.qr(random.standard_normal((m, m)))[0]
        np.testing.assert_allclose(canonical_basis(rotated, m), basis, atol=1e-12)
        np.testing.assert_allclose(canonical_basis(rotated, 1), basis[:, :1], atol=1e-12)
        np.testing.assert_allclose(basis.T @ basis, np.eye(m), atol=1e-13)
        np.testing.assert_allclose(basis @ basis.T, vectors @ vectors.T, atol=1e-12)


def test_a_ring_has_the_cosine_and_the_sine_from_its_first_node() -> None:
    angle = 2 * torch.pi * torch.arange(6, dtype=torch.float64) / 6
    expected = torch.stack([angle.cos(), angle.sin()], dim=1) / 3**0.5
    torch.testing.assert_close(dgn.directions(*cycle(6), k=2).potential, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("copies", [1, 3000])
def test_no_vector_of_a_repeated_eigenspace_has_a_canonical_sign(copies: int, build: Callable[[str], Graph]) -> None:
    star = build("star 3")
    batch = torch.cat([star.edge_index + 4 * copy for copy in range(copies)], dim=1)
    for k, expected in ((1, [False]), (2, [False, False]), (3, [False, False, True])):
        assert dgn.directions(batch, 4 * copies, k=k).sign_is_canonical.unique(dim=0).tolist() == [expected]


@pytest.mark.parametrize("normalization", [None, "rw", "sym"])
@pytest.mark.parametrize("graph", SYMMETRIC, indirect=True)
def test_a_graph_has_one_basis_alone_and_in_a_dataset(graph: Graph, normalization: str | None) -> None:
    packed = dgn.data.PackedGraphs.pack([(graph.edge_index, graph.num_nodes), cycle(5)])
    in_dataset = add_directions(packed, k=2, normalization=normalization).nodes["node_potential"][: graph.num_nodes]
    alone = dgn.directions(graph, k=2, normalization=normalization).potential
    torch.testing.assert_close(in_dataset, alone.float(), atol=1e-7, rtol=0)


@pytest.mark.parametrize(("graph", "k"), [("cycle 200", 2), ("cycle 201", 4), ("wheel 150", 2)], indirect=["graph"])
@pytest.mark.parametrize("largest_exact", [10**6, 0])
def test_large_components_have_the_basis_of_small_ones(
    graph: Graph, k: int, largest_exact: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By an exact factorisation and by iteration, where the eigenspaces end before the last vector."""
    small = dgn.directions(graph, k=k).potential
    monkeypatch.setattr(select, "LARGEST_DENSE", 0)
    monkeypatch.setattr(select, "LARGEST_EXACT", largest_exact)
    torch.testing.assert_close(dgn.directions(graph, k=k).potential, small, atol=1e-5, rtol=0)


def chain(count: int, size: int, link: float, seed: int, density: float) -> tuple[torch.Tensor, int, torch.Tensor]:
    """Edges and weights of random graphs in a row, one weak edge between neighbours; nodes in random order."""
    draw = torch.Generator().manual_seed(seed)
    inside = torch.rand(size, size, generator=draw) < density
    block = (inside.triu(1) | torch.eye(size).bool().roll(1, dims=1).triu(1)).nonzero().T
    links = torch.stack([torch.arange(count - 1) * size, torch.arange(1, count) * size])
    edges = torch.cat([*(block + size * copy for copy in range(count)), links], dim=1)
    weight = torch.cat([torch.ones(count * block.size(1)), torch.full((count - 1,), link)]).double()
    return torch.randperm(count * size, generator=draw)[edges], count * size, weight


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("normalization", [None, "rw", "sym"])
@pytest.mark.parametrize(
    ("count", "size", "link", "density"), [(3, 10, 1e-12, 1.0), (4, 30, 1e-11, 1.0), (2, 200, 1e-9, 0.05)]
)
def test_weak_links_cost_no_orthonormality(
    count: int,
    size: int,
    link: float,
    density: float,
    normalization: str | None,
    many: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if many:
        pytest.importorskip("numba", reason="Numba is not installed")
        monkeypatch.setattr(select, "MANY_NODES", 0)
    for seed in range(3):
        edge_index, num_nodes, weight = chain(count, size, link, seed, density)
        d = dgn.directions(edge_index, num_nodes, k=count, normalization=normalization, edge_weight=weight)
        degree = dgn.laplacian(edge_index, num_nodes, edge_weight=weight).to_dense().diagonal()
        mu = degree / degree.mean() if normalization == "rw" else torch.ones_like(degree)
        trivial = degree.sqrt() if normalization == "sym" else torch.ones_like(degree)
        unit = trivial[:, None] / (mu * trivial.square()).sum().sqrt()
        basis = torch.cat([unit, d.potential], dim=1)
        gram = basis.T @ (mu[:, None] * basis)
        torch.testing.assert_close(gram, torch.eye(count + 1).double(), atol=1e-13, rtol=0)
