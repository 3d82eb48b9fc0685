"""Directions are eigenvectors of each component, orthonormal, reproducible and independent of the numbering."""

from collections.abc import Callable
from dataclasses import astuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import dgn
from dgn import Directions, Graph
from dgn.spectral.solvers import select
from dgn.testing import assert_same_eigenspace

NORMALIZATIONS = [None, "rw", "sym"]
# A pair of components of which neither is like the other, nodes without edges, and every named graph.
GRAPHS = [
    "nodes 0",
    "nodes 1",
    "nodes 3",
    "path 2",
    "path 7",
    "cycle 3",
    "cycle 8",
    "star 5",
    "complete 2",
    "complete 6",
    "hypercube 4",
    "grid 3 4",
    "barbell 4 1",
    "wheel 6",
    "tree 24 0",
    "connected 15 1",
    "nodes 1 + path 3 + cycle 5 + nodes 2 + star 3",
]
every_graph = pytest.mark.parametrize("graph", GRAPHS, indirect=True)
every_normalization = pytest.mark.parametrize("normalization", NORMALIZATIONS)


def degree_of(graph: Graph) -> torch.Tensor:
    return dgn.laplacian(graph).to_dense().diagonal()


def assert_same(ours: Directions, theirs: Directions) -> None:
    """To the last bit, NaN included."""
    for a, b in zip(astuple(ours), astuple(theirs), strict=True):
        assert a.dtype == b.dtype
        assert a.numpy().tobytes() == b.numpy().tobytes()


@every_normalization
@every_graph
def test_every_column_solves_the_eigen_equation_of_its_component(graph: Graph, normalization: str | None) -> None:
    d = dgn.directions(graph, k=4, normalization=normalization)
    value = d.eigenvalues[d.component].nan_to_num(0.0)
    applied = dgn.laplacian(graph, normalization=normalization).to_dense() @ d.potential
    torch.testing.assert_close(applied, value * d.potential, atol=1e-12, rtol=0)


@every_normalization
@every_graph
def test_columns_are_orthonormal_and_the_constant_vector_is_not_among_them(
    graph: Graph, normalization: str | None
) -> None:
    d = dgn.directions(graph, k=4, normalization=normalization)
    degree = degree_of(graph)
    for c in range(len(d.eigenvalues)):
        members = d.component == c
        n = int(members.sum())
        mu = degree[members] / degree[members].mean() if normalization == "rw" and n > 1 else torch.ones(n).double()
        v, exists = d.potential[members], torch.arange(4) < n - 1
        torch.testing.assert_close(v.T @ (mu[:, None] * v), exists.diag().double(), atol=1e-12, rtol=0)
        trivial = degree[members].sqrt() if normalization == "sym" else torch.ones(n).double()
        torch.testing.assert_close((mu * trivial) @ v, torch.zeros(4).double(), atol=1e-11, rtol=0)
        assert torch.equal(d.eigenvalues[c].isnan(), ~exists)
        assert (d.eigenvalues[c, exists] > 1e-3).all()


@every_normalization
@every_graph
def test_eigenvalues_are_the_lowest_of_each_component(graph: Graph, normalization: str | None) -> None:
    d = dgn.directions(graph, k=4, normalization=normalization)
    matrix = dgn.laplacian(graph, normalization="sym" if normalization else None).to_dense()
    for c in range(len(d.eigenvalues)):
        members = d.component == c
        expected = torch.linalg.eigvalsh(matrix[members][:, members])[1:5]
        torch.testing.assert_close(d.eigenvalues[c, : len(expected)], expected, atol=1e-12, rtol=0)


@every_graph
def test_shapes_and_dtypes(graph: Graph) -> None:
    d = dgn.directions(graph, k=3)
    count = len(d.component.unique())
    assert (d.potential.shape, d.component.shape) == ((graph.num_nodes, 3), (graph.num_nodes,))
    assert d.eigenvalues.shape == d.gap.shape == d.sign_is_canonical.shape == (count, 3)
    assert d.potential.dtype == d.eigenvalues.dtype == d.gap.dtype == torch.float64
    assert (d.component.dtype, d.sign_is_canonical.dtype) == (torch.int64, torch.bool)


@pytest.mark.parametrize(
    ("graph", "spectrum"),
    [
        ("path 3", [1, 3]),
        ("cycle 4", [2, 2, 4]),
        ("star 4", [1, 1, 1, 5]),
        ("complete 4", [4, 4, 4]),
        ("hypercube 3", [2, 2, 2, 4, 4, 4, 6]),
        ("grid 2 3", [1, 2, 3, 3, 5]),
    ],
    indirect=["graph"],
)
@pytest.mark.parametrize("beyond", [0, 3])
def test_known_spectra_and_nothing_beyond_the_last(graph: Graph, spectrum: list[float], beyond: int) -> None:
    d = dgn.directions(graph, k=len(spectrum) + beyond)
    expected = torch.tensor([*spectrum, *[torch.nan] * beyond], dtype=torch.float64)
    torch.testing.assert_close(d.eigenvalues[0], expected, equal_nan=True)
    assert not d.potential[:, len(spectrum) :].any()
    assert d.potential[:, : len(spectrum)].any(dim=0).all()


@pytest.mark.parametrize("n", [0, 1, 4])
@every_normalization
def test_without_edges_every_node_is_a_component_of_zeros(
    build: Callable[[str], Graph], n: int, normalization: str | None
) -> None:
    d = dgn.directions(build(f"nodes {n}"), k=2, normalization=normalization)
    assert torch.equal(d.potential, torch.zeros(n, 2, dtype=torch.float64))
    assert d.component.tolist() == list(range(n))
    assert d.eigenvalues.isnan().all()
    assert not d.sign_is_canonical.any()


@every_normalization
@every_graph
def test_directions_are_bitwise_reproducible(graph: Graph, normalization: str | None) -> None:
    first, second = (
        dgn.directions(graph.edge_index.clone(), graph.num_nodes, 3, normalization=normalization) for _ in range(2)
    )
    assert_same(first, second)


@every_graph
def test_order_direction_and_repetition_of_edges_change_nothing(graph: Graph) -> None:
    # Written once, the other way round, in another order, with self-loops: the same adjacency matrix.
    once = graph.edge_index.sort(dim=0).values.unique(dim=1)
    order = torch.randperm(once.size(1), generator=torch.Generator().manual_seed(1))
    loops = torch.arange(graph.num_nodes).expand(2, -1)
    rewritten = torch.cat([loops, once.flip(0)[:, order]], dim=1)
    assert_same(dgn.directions(rewritten, graph.num_nodes, 3), dgn.directions(graph, k=3))


@every_normalization
def test_directions_are_batch_independent(build: Callable[[str], Graph], normalization: str | None) -> None:
    names = ["cycle 6", "nodes 1", "tree 20 1", "cycle 6", "connected 12 2", "path 350", "complete 5", "tree 20 3"]
    together = dgn.directions(build(" + ".join(names)), k=3, normalization=normalization)
    alone = [dgn.directions(build(name), k=3, normalization=normalization) for name in names]
    for field in ("potential", "eigenvalues", "gap"):
        expected = torch.cat([getattr(d, field) for d in alone])
        torch.testing.assert_close(getattr(together, field), expected, atol=1e-12, rtol=0, equal_nan=True)
    assert torch.equal(together.sign_is_canonical, torch.cat([d.sign_is_canonical for d in alone]))
    sizes = torch.tensor([len(d.component) for d in alone])
    assert torch.equal(together.component, torch.arange(len(names)).repeat_interleave(sizes))


@every_normalization
@settings(deadline=None, max_examples=25, derandomize=True)
@given(n=st.integers(2, 30), seed=st.integers(0, 10**6), weighted=st.booleans())
def test_relabelling_nodes_relabels_the_result(
    build: Callable[[str], Graph], n: int, seed: int, weighted: bool, normalization: str | None
) -> None:
    graph = build(f"connected {n} {seed}")
    draw = torch.Generator().manual_seed(seed)
    weight = torch.rand(graph.num_edges, generator=draw) + 0.5 if weighted else None
    name = torch.randperm(n, generator=draw)
    before = dgn.directions(graph, k=4, normalization=normalization, edge_weight=weight)
    after = dgn.directions(name[graph.edge_index], n, 4, normalization, edge_weight=weight)
    torch.testing.assert_close(after.eigenvalues, before.eigenvalues, atol=1e-11, rtol=0, equal_nan=True)
    torch.testing.assert_close(after.gap, before.gap, atol=1e-9, rtol=0, equal_nan=True)
    simple = ~before.repeated(tolerance=1e-4)[0]
    assert torch.equal(after.sign_is_canonical[0, simple], before.sign_is_canonical[0, simple])
    fixed = simple & before.sign_is_canonical[0]
    torch.testing.assert_close(after.potential[name][:, fixed], before.potential[:, fixed], atol=1e-8, rtol=0)
    free = simple & ~fixed
    torch.testing.assert_close(after.potential[name][:, free].abs(), before.potential[:, free].abs(), atol=1e-8, rtol=0)


@every_normalization
@pytest.mark.parametrize(
    ("graph", "space"), [("cycle 9", 2), ("complete 5", 4), ("hypercube 3", 3)], indirect=["graph"]
)
def test_relabelling_keeps_a_repeated_eigenspace(graph: Graph, space: int, normalization: str | None) -> None:
    name = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(2))
    before = dgn.directions(graph, k=space, normalization=normalization)
    after = dgn.directions(name[graph.edge_index], graph.num_nodes, space, normalization)
    assert_same_eigenspace(after.potential[name], before.potential)


@pytest.mark.parametrize("seed", range(20))
@every_normalization
def test_direction_one_is_the_fiedler_vector_of_molecule_like_trees(
    build: Callable[[str], Graph], seed: int, normalization: str | None
) -> None:
    """Loose ARPACK loses the constant vector on such graphs, and direction 1 is then the second one."""
    graph = build(f"tree {21 + seed} {seed}")
    d = dgn.directions(graph, k=1, normalization=normalization)
    matrix = dgn.laplacian(graph, normalization="sym" if normalization else None).to_dense()
    values, vectors = torch.linalg.eigh(matrix)
    torch.testing.assert_close(d.eigenvalues[0, 0], values[1], atol=1e-12, rtol=0)
    scaled = d.potential[:, 0] * (degree_of(graph).sqrt() if normalization == "rw" else 1.0)
    overlap = (scaled / scaled.norm()) @ vectors
    assert overlap[0].abs() < 1e-12
    assert overlap[1].abs() > 1 - 1e-12


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_normalization
def test_weights_enter_and_scale_the_eigenvalues(
    build: Callable[[str], Graph], normalization: str | None, dtype: torch.dtype
) -> None:
    graph = build("connected 12 4")
    weight = torch.randint(1, 9, (graph.num_edges,), generator=torch.Generator().manual_seed(0)).to(dtype) / 4
    ours = dgn.directions(graph, k=3, normalization=normalization, edge_weight=weight)
    matrix = dgn.laplacian(graph, normalization=normalization, edge_weight=weight.double()).to_dense()
    torch.testing.assert_close(matrix @ ours.potential, ours.potential * ours.eigenvalues, atol=1e-12, rtol=0)
    scaled = dgn.directions(graph, k=3, normalization=normalization, edge_weight=1024 * weight)
    factor = 1.0 if normalization else 1024.0
    torch.testing.assert_close(scaled.eigenvalues, factor * ours.eigenvalues, rtol=1e-12, atol=0)
    torch.testing.assert_close(scaled.potential, ours.potential, atol=1e-10, rtol=0)


@every_normalization
@pytest.mark.parametrize("unit", [2.0**-1000, 2.0**-560, 2.0**-150, 2.0**150, 2.0**560, 2.0**1000])
@pytest.mark.parametrize("name", ["connected 20 4 + connected 60 4", "connected 400 4"])
@pytest.mark.parametrize("direct", [False, True])
def test_the_unit_of_the_weights_changes_no_vector(
    name: str, unit: float, normalization: str | None, direct: bool, build, monkeypatch
) -> None:
    """By every solver: dense, direct, on an exact factorisation, and by iteration."""
    if direct:
        pytest.importorskip("numba", reason="Numba is not installed")
        monkeypatch.setattr(select, "MANY_NODES", 0)
        monkeypatch.setattr("dgn.spectral.solvers.select.LARGEST_EXACT", 0)
    graph = build(name)
    weight = torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 0.5
    ours = dgn.directions(graph, k=2, normalization=normalization, edge_weight=weight)
    scaled = dgn.directions(graph, k=2, normalization=normalization, edge_weight=unit * weight)
    assert torch.equal(scaled.potential, ours.potential)
    assert torch.equal(scaled.eigenvalues, ours.eigenvalues * (1.0 if normalization else unit))


def test_integer_weights_are_parallel_edges(build: Callable[[str], Graph]) -> None:
    graph = build("connected 10 5")
    weight = torch.randint(1, 4, (graph.num_edges,), generator=torch.Generator().manual_seed(0))
    parallel = graph.edge_index.repeat_interleave(weight, dim=1)
    assert_same(dgn.directions(parallel, 10, 3), dgn.directions(graph, k=3, edge_weight=weight.float()))


def test_an_edge_of_weight_zero_does_not_connect(build: Callable[[str], Graph]) -> None:
    d = dgn.directions(torch.tensor([[0, 1, 2], [1, 2, 3]]), 4, edge_weight=torch.tensor([1.0, 0.0, 1.0]))
    assert_same(d, dgn.directions(build("path 2 + path 2")))


@pytest.mark.parametrize("graph", ["cycle 7", "connected 14 6"], indirect=True)
def test_directed_input_is_symmetrised(graph: Graph) -> None:
    one_way = graph.edge_index.sort(dim=0).values.unique(dim=1)
    both_ways = torch.cat([one_way, one_way.flip(0)], dim=1)
    assert_same(dgn.directions(one_way, graph.num_nodes), dgn.directions(both_ways, graph.num_nodes))


def test_pyg_data_is_a_graph_with_its_weights(build: Callable[[str], Graph]) -> None:
    graph = build("connected 12 7")
    weight = torch.linspace(0.5, 2.0, graph.num_edges, dtype=torch.float64)
    plain = Data(edge_index=graph.edge_index, num_nodes=12)
    weighted = Data(edge_index=graph.edge_index, edge_weight=weight, num_nodes=12)
    assert_same(dgn.directions(plain), dgn.directions(graph))
    assert_same(dgn.directions(weighted), dgn.directions(graph, edge_weight=weight))
    assert_same(dgn.directions(weighted, edge_weight=2 * weight), dgn.directions(graph, edge_weight=2 * weight))
    assert not torch.equal(dgn.directions(weighted).eigenvalues, dgn.directions(plain).eigenvalues)


@pytest.mark.parametrize("k", [1, 2, 5])
def test_a_larger_k_only_adds_columns(build: Callable[[str], Graph], k: int) -> None:
    graph = build("connected 18 8 + path 4")
    few, many = dgn.directions(graph, k=k), dgn.directions(graph, k=9)
    for field in ("potential", "eigenvalues", "gap", "sign_is_canonical"):
        assert torch.equal(getattr(few, field).nan_to_num(9.0), getattr(many, field)[:, :k].nan_to_num(9.0))


def test_weights_of_packed_graphs_are_used() -> None:
    edge_index, weight = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.tensor([1.0, 1.0, 5.0, 5.0])
    packed = dgn.data.PackedGraphs.pack([(edge_index, 3)]).with_values(edges={"edge_weight": weight})
    expected = dgn.directions(edge_index, k=2, num_nodes=3, edge_weight=weight)
    assert torch.equal(dgn.directions(packed, k=2).potential, expected.potential)


def test_a_data_attribute_may_be_called_edges() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    data = Data(edge_index=edge_index, num_nodes=3, edges=torch.zeros(4))
    assert torch.equal(dgn.directions(data, k=1).potential, dgn.directions(edge_index, k=1, num_nodes=3).potential)
