"""The layout groups edges by node, keeps their order, and is computed once."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Batch, Data

from dgn import Graph, as_graph

quick = settings(deadline=None, max_examples=40, derandomize=True)


@st.composite
def multigraphs(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(0, 6))
    node = st.integers(0, max(n - 1, 0))
    edges = draw(st.lists(st.tuples(node, node), max_size=14)) if n else []
    return as_graph(torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), n)


@quick
@given(multigraphs())
def test_in_edges_of_each_node_are_listed_in_their_order(graph: Graph) -> None:
    pointer, order, neighbor = graph.by_target
    for node in range(graph.num_nodes):
        in_edges = slice(pointer[node], pointer[node + 1])
        assert order[in_edges].tolist() == [e for e, i in enumerate(graph.target.tolist()) if i == node]
        assert neighbor[in_edges].tolist() == [j for j, i in graph.edge_index.t().tolist() if i == node]
    assert len(pointer) == graph.num_nodes + 1


@quick
@given(multigraphs())
def test_transpose_is_the_layout_of_the_reversed_graph(graph: Graph) -> None:
    reversed_graph = as_graph(graph.edge_index.flip(0), graph.num_nodes)
    for ours, theirs in zip(graph.by_source, reversed_graph.by_target, strict=True):
        assert torch.equal(ours, theirs)


@quick
@given(multigraphs())
def test_in_degree_counts_messages(graph: Graph) -> None:
    assert graph.in_degree.tolist() == [graph.target.tolist().count(node) for node in range(graph.num_nodes)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tail", [(), (3,), (2, 3)])
@quick
@given(graph=multigraphs())
def test_sum_and_max_to_target_equal_a_loop(graph: Graph, dtype: torch.dtype, tail: tuple[int, ...]) -> None:
    values = torch.rand(graph.num_edges, *tail, dtype=dtype, generator=torch.Generator().manual_seed(0))
    total = largest = torch.zeros(graph.num_nodes, *tail, dtype=dtype)
    total, largest = total.clone(), largest.clone()
    for value, node in zip(values, graph.target.tolist(), strict=True):
        total[node] += value
        largest[node] = torch.maximum(largest[node], value)
    torch.testing.assert_close(graph.sum_to_target(values), total)
    assert torch.equal(graph.max_to_target(values), largest)


def test_max_over_graph_is_taken_in_the_graph_of_the_edge() -> None:
    edge_index, values = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.tensor([1.0, 2.0, 5.0, 3.0])
    batched = as_graph(edge_index, 4, batch=torch.tensor([0, 0, 1, 1]))
    assert batched.max_over_graph(values).tolist() == [2.0, 2.0, 5.0, 5.0]
    assert as_graph(edge_index, 4).max_over_graph(values).tolist() == [5.0]


@pytest.mark.parametrize("batch", [None, torch.tensor([0, 1])])
def test_max_over_a_graph_without_edges_is_empty(batch: torch.Tensor | None) -> None:
    graph = as_graph(torch.empty(2, 0, dtype=torch.long), 2, batch)
    assert graph.max_over_graph(torch.empty(0, 3)).shape == (0, 3)


def test_layout_is_computed_once() -> None:
    graph = as_graph(torch.tensor([[0, 1], [1, 0]]))
    assert graph.by_target is graph.by_target
    assert graph.by_source is graph.by_source


def test_a_graph_passes_through_and_takes_a_batch() -> None:
    graph = as_graph(torch.tensor([[0], [1]]), 3)
    batch = torch.tensor([0, 0, 1])
    assert as_graph(graph) is graph
    assert as_graph(graph, batch=batch).batch is batch
    assert graph.batch is None


@pytest.mark.parametrize(("edges", "expected"), [([[0], [4]], 5), ([[], []], 0)])
def test_number_of_nodes_defaults_to_the_highest_with_an_edge(edges: list[list[int]], expected: int) -> None:
    assert as_graph(torch.tensor(edges, dtype=torch.long)).num_nodes == expected


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
def test_integers_of_any_dtype_become_int64(dtype: torch.dtype) -> None:
    graph = as_graph(torch.tensor([[0, 1], [1, 2]], dtype=dtype))
    assert graph.edge_index.dtype == torch.int64
    assert graph.edge_index.tolist() == [[0, 1], [1, 2]]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_a_batch_may_have_any_integer_dtype(dtype: torch.dtype) -> None:
    edges, batch = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]), torch.tensor([0, 0, 1, 1])
    graph, same = as_graph(edges, 4, batch.to(dtype)), as_graph(edges, 4, batch)
    values = torch.tensor([1.0, 2.0, 3.0, 4.0])
    assert torch.equal(graph.max_over_graph(values), same.max_over_graph(values))
    assert torch.equal(graph.sum_over_graph(values, mean=True), same.sum_over_graph(values, mean=True))


def test_pyg_data_and_batch_bring_their_nodes_and_their_batch() -> None:
    data = Data(edge_index=torch.tensor([[0], [1]]), num_nodes=3)
    assert (as_graph(data).num_nodes, as_graph(data).batch, as_graph(data).num_graphs) == (3, None, 1)
    two = as_graph(Batch.from_data_list([data, data]))
    assert two.edge_index.tolist() == [[0, 3], [1, 4]]
    assert two.batch is not None
    assert two.batch.tolist() == [0, 0, 0, 1, 1, 1]
    assert two.num_graphs == 2
    assert as_graph(data, 3).num_nodes == 3
    with pytest.raises(ValueError, match=r"^num_nodes: expected 3, as the Data has, got 4; set its own num_nodes"):
        as_graph(data, 4)


def test_no_nodes_in_a_batch_is_no_graph() -> None:
    empty = torch.empty(2, 0, dtype=torch.long)
    assert as_graph(empty, 0, torch.empty(0, dtype=torch.long)).num_graphs == 0


def test_graphs_without_nodes_are_kept_on_another_device() -> None:
    graph = as_graph(torch.zeros(2, 0).long(), 2, torch.tensor([0, 0]), num_graphs=3)
    assert graph.to("cpu").num_graphs == 3


def test_a_layout_cached_in_inference_mode_can_be_trained_with() -> None:
    graph, x = as_graph(torch.tensor([[0, 1], [1, 0]])), torch.ones(2, 1, requires_grad=True)
    with torch.inference_mode():
        assert graph.by_target.pointer.tolist() == [0, 1, 2]
    assert not graph.by_target.order.is_inference()
    x[graph.by_target.neighbor].sum().backward()


def test_the_cache_has_no_gradient() -> None:
    graph, weight = as_graph(torch.tensor([[0, 1], [1, 0]])), torch.ones(1, requires_grad=True)
    with torch.no_grad():
        assert not graph.cached("twice", lambda: 2 * weight).requires_grad


def test_graphs_without_nodes_at_the_end_count() -> None:
    graphs = [Data(edge_index=torch.zeros(2, 0, dtype=torch.long), num_nodes=n) for n in (3, 2, 0)]
    graph = as_graph(Batch.from_data_list(graphs))
    assert graph.num_graphs == 3
    assert as_graph(graph) is as_graph(graph, num_graphs=3) is graph
    assert as_graph(graph, num_graphs=5).num_graphs == 5
    assert graph.num_graphs == 3


def test_setting_the_number_of_graphs_keeps_the_graph() -> None:
    graph = as_graph(torch.tensor([[0], [1]]), 2, torch.zeros(2, dtype=torch.long))
    assert as_graph(graph, num_graphs=2) is graph
    assert graph.num_graphs == 2
