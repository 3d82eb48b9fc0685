"""The three Laplacians equal their definition, entry by entry."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import dgn
from dgn import Graph

quick = settings(deadline=None, max_examples=60, derandomize=True)
NORMALIZATIONS = [None, "rw", "sym"]
WEIGHTS = [0.0, 0.25, 0.5, 1.0, 3.0]  # exact in every dtype

Edge = tuple[int, int, float]


@st.composite
def weighted(draw: st.DrawFn) -> tuple[int, list[Edge]]:
    """Any multigraph: directed, with self-loops, parallel edges and edges of weight 0."""
    n = draw(st.integers(0, 6))
    node = st.integers(0, max(n - 1, 0))
    return n, draw(st.lists(st.tuples(node, node, st.sampled_from(WEIGHTS)), max_size=14)) if n else []


def tensors(edges: list[Edge], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    table = torch.tensor(edges, dtype=torch.float64).reshape(-1, 3)
    return table[:, :2].t().long(), table[:, 2].to(dtype)


def by_definition(n: int, edges: list[Edge], normalization: str | None) -> torch.Tensor:
    one_way = torch.zeros(n, n, dtype=torch.float64)
    for source, target, weight in edges:
        one_way[target, source] += weight
    one_way.fill_diagonal_(0.0)
    adjacency = torch.maximum(one_way, one_way.T)
    matrix = torch.zeros(n, n, dtype=torch.float64)
    degree = adjacency.sum(dim=1).tolist()
    for i in range(n):
        for j in range(n):
            entry = (degree[i] if i == j else 0.0) - float(adjacency[i, j])
            if entry and normalization == "rw":
                entry /= degree[i]
            elif entry and normalization == "sym":
                entry /= (degree[i] * degree[j]) ** 0.5
            matrix[i, j] = entry
    return matrix


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@quick
@given(sample=weighted())
def test_entries_equal_the_definition(
    sample: tuple[int, list[Edge]], normalization: str | None, dtype: torch.dtype
) -> None:
    n, edges = sample
    edge_index, weight = tensors(edges, dtype)
    ours = dgn.laplacian(edge_index, n, normalization, edge_weight=weight)
    assert ours.dtype == dtype
    torch.testing.assert_close(ours.to_dense(), by_definition(n, edges, normalization).to(dtype))


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@quick
@given(sample=weighted())
def test_laplacian_is_positive_with_one_null_vector_per_component(
    sample: tuple[int, list[Edge]], normalization: str | None
) -> None:
    n, edges = sample
    edge_index, weight = tensors(edges, torch.float64)
    matrix = dgn.laplacian(edge_index, n, normalization, edge_weight=weight).to_dense()
    # L_rw is similar to L_sym: its eigenvalues are real, which the general solver shows.
    values = torch.linalg.eigvals(matrix) if normalization == "rw" else torch.linalg.eigvalsh(matrix)
    component = dgn.directions(edge_index, n, k=1, edge_weight=weight).component
    assert (values.real > -1e-12).all()
    assert (values.abs() < 1e-10).sum() == len(component.unique())
    if normalization != "sym":
        torch.testing.assert_close(matrix.sum(dim=1), torch.zeros(n, dtype=torch.float64))
    if normalization != "rw":
        torch.testing.assert_close(matrix, matrix.T)


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize(
    ("edges", "same"),
    [
        pytest.param([(0, 1, 1.0), (0, 1, 2.0)], [(0, 1, 3.0)], id="parallel edges add up"),
        pytest.param([(0, 1, 2.0)], [(0, 1, 2.0), (1, 0, 2.0)], id="one direction is as good as both"),
        pytest.param([(0, 1, 2.0), (1, 0, 5.0)], [(1, 0, 5.0)], id="the larger direction counts"),
        pytest.param([(0, 1, 1.0), (0, 1, 1.0), (1, 0, 1.0)], [(0, 1, 2.0)], id="sum, then maximum"),
        pytest.param([(0, 1, 1.0), (1, 1, 7.0)], [(0, 1, 1.0)], id="self-loops do not count"),
        pytest.param([(0, 1, 1.0), (1, 2, 0.0)], [(0, 1, 1.0)], id="an edge of weight 0 is none"),
    ],
)
def test_two_ways_to_write_one_graph(edges: list[Edge], same: list[Edge], normalization: str | None) -> None:
    ours, theirs = (
        dgn.laplacian(edge_index, 3, normalization, edge_weight=weight).to_dense()
        for edge_index, weight in (tensors(edges, torch.float64), tensors(same, torch.float64))
    )
    assert torch.equal(ours, theirs)


def test_edges_without_weights_have_weight_one() -> None:
    edge_index = torch.tensor([[0, 1, 1, 2, 2], [1, 0, 2, 2, 1]])
    ours, ones = dgn.laplacian(edge_index, 3), dgn.laplacian(edge_index, 3, edge_weight=torch.ones(5))
    assert (ours.dtype, ones.dtype) == (torch.float64, torch.float32)
    assert torch.equal(ours.to_dense(), ones.to_dense().double())


@pytest.mark.parametrize("graph", ["cycle 3", "grid 2 3"], indirect=True)
def test_stored_entries_are_the_edges_and_the_degrees(graph: Graph) -> None:
    with_loop = torch.cat([graph.edge_index, torch.tensor([[1], [1]])], dim=1)
    assert dgn.laplacian(with_loop, graph.num_nodes)._nnz() == graph.num_edges + graph.num_nodes


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("n", [0, 1, 3])
def test_no_edges_give_zeros(build: Callable[[str], Graph], n: int, normalization: str | None) -> None:
    matrix = dgn.laplacian(build(f"nodes {n}"), normalization=normalization).to_dense()
    assert torch.equal(matrix, torch.zeros(n, n, dtype=torch.float64))


@pytest.mark.parametrize("normalization", NORMALIZATIONS)
@pytest.mark.parametrize("graph", ["connected 20 3"], indirect=True)
def test_order_and_direction_of_edges_change_nothing(graph: Graph, normalization: str | None) -> None:
    draw = torch.Generator().manual_seed(0)
    order = torch.randperm(graph.num_edges, generator=draw)
    turned = graph.edge_index[:, order]
    turned = torch.where(torch.rand(graph.num_edges, generator=draw) < 0.5, turned, turned.flip(0))
    ours = dgn.laplacian(turned, graph.num_nodes, normalization).to_dense()
    assert torch.equal(ours, dgn.laplacian(graph, normalization=normalization).to_dense())


def test_weights_may_require_gradients() -> None:
    weight = torch.ones(1, requires_grad=True)
    assert not dgn.laplacian(torch.tensor([[0], [1]]), 2, edge_weight=weight).requires_grad


def test_pyg_data_brings_its_edge_weight() -> None:
    edge_index, weight = tensors([(0, 1, 0.25), (1, 2, 3.0)], torch.float64)
    data = Data(edge_index=edge_index, edge_weight=weight, num_nodes=3)
    assert torch.equal(dgn.laplacian(data).to_dense(), dgn.laplacian(edge_index, 3, edge_weight=weight).to_dense())
