"""Chunks: every graph once, cut by size alone, and a chunk that fails is bisected."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import dgn
from dgn.data import PackedGraphs
from dgn.data.precompute import chunks
from dgn.data.precompute.chunks import GRAPHS, MOST_NODES, NODES, ChunkDirections, Request, cut, solve, take
from tests.data.conftest import random_graphs


@given(st.lists(st.sampled_from([0, 1, 30, 119, 5_000, MOST_NODES, 3 * MOST_NODES]), max_size=3_000))
def test_chunks_cover_all_graphs_and_are_neither_small_nor_large(sizes: list[int]) -> None:
    pointer = torch.tensor([0, *sizes]).cumsum(0)
    bounds = cut(pointer)
    assert [index for begin, end in bounds for index in range(begin, end)] == list(range(len(sizes)))
    for begin, end in bounds:
        nodes = int(pointer[end] - pointer[begin])
        assert nodes - sizes[end - 1] < MOST_NODES
        assert end == len(sizes) or (end - begin >= GRAPHS and nodes >= NODES) or nodes >= MOST_NODES


def test_a_chunk_holds_its_graphs(small: PackedGraphs) -> None:
    chunk = take(small, 1, 3, "edge_attr")
    assert not chunk.nodes
    assert chunk.edge_index.tolist() == [[0, 1], [1, 0]]
    assert chunk.node_pointer.tolist() == [0, 0, 4]
    assert chunk.edges["edge_attr"].tolist() == [4, 5]


@pytest.mark.parametrize("normalization", [None, "rw"])
def test_directions_of_a_chunk_equal_those_of_single_graphs(normalization: str | None) -> None:
    graphs = random_graphs(30)
    chunk = solve(graphs, Request(3, normalization))  # type: ignore[arg-type]
    node, edge, component = 0, 0, 0
    for index in range(len(graphs)):
        data = graphs[index]
        single = dgn.directions(data.edge_index, data.num_nodes, k=3, normalization=normalization)  # type: ignore[arg-type]
        rows = slice(node, node + data.num_nodes)
        components = slice(component, component + len(single.eigenvalues))
        assert torch.equal(chunk.component[rows].long(), single.component)
        assert int(chunk.components[index]) == len(single.eigenvalues)
        torch.testing.assert_close(chunk.eigenvalues[components], single.eigenvalues, equal_nan=True)
        assert torch.equal(chunk.repeated[components], single.repeated())
        simple = ~single.repeated()[single.component]
        torch.testing.assert_close(chunk.potential[rows][simple], single.potential.float()[simple])
        field = chunk.field[edge : edge + data.num_edges]
        torch.testing.assert_close(field, dgn.gradient(chunk.potential[rows], data.edge_index), atol=1e-6, rtol=0)
        node, edge, component = rows.stop, edge + data.num_edges, components.stop


def test_weights_enter_the_laplacian() -> None:
    path = torch.tensor([[0, 1], [1, 2]])
    weighted = PackedGraphs.pack([(path, 3)]).with_values(edges={"w": torch.tensor([1, 5])})
    eigenvalues = solve(weighted, Request(1, None, "w")).eigenvalues
    weight = torch.tensor([1.0, 5.0])
    assert torch.equal(eigenvalues, chunks.directions_of_many(dgn.as_graph(path), 1, None, weight).eigenvalues)
    torch.testing.assert_close(eigenvalues, dgn.directions(path, 3, 1, edge_weight=weight).eigenvalues)
    assert not torch.equal(eigenvalues, solve(weighted, Request(1)).eigenvalues)


def test_graphs_that_fail_are_named_and_the_others_are_solved() -> None:
    graphs = random_graphs(40)
    weight = torch.ones(graphs.num_edges)
    good = solve(graphs.with_values(edges={"w": weight}), Request(2, None, "w"))
    bad = [index for index in (7, 8, 30) if graphs[index].num_edges]
    for index in bad:
        weight[graphs.edge_pointer[index]] = torch.nan
    chunk = solve(graphs.with_values(edges={"w": weight}), Request(2, None, "w"))
    assert list(chunk.failures) == bad
    assert "expected finite numbers, got nan" in chunk.failures[bad[0]]
    failed = torch.isin(graphs.graph.batch, torch.tensor(bad))  # type: ignore[arg-type]
    assert torch.equal(chunk.potential[~failed], good.potential[~failed])
    assert not chunk.potential[failed].any()
    assert (chunk.component[failed] == 0).all()
    assert (chunk.components[bad] == 1).all()
    assert chunk.components.sum() == len(chunk.eigenvalues) == len(chunk.gap) == len(chunk.repeated)
    assert int(chunk.components[bad[0]]) == 1


def test_an_empty_chunk_is_not_bisected_for_ever() -> None:
    empty = PackedGraphs.pack([]).with_values(edges={"edge_weight": torch.zeros(0, 1)})
    with pytest.raises(ValueError, match=r"edge_weight: expected shape \[0\], got \[0, 1\]"):
        solve(empty, Request(1, edge_weight="edge_weight"))


@pytest.mark.parametrize("weighted", [False, True])
def test_a_graph_that_fails_changes_no_basis_of_the_others(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The eigenvalues of cycles repeat, and the solver chooses the basis."""
    graphs = PackedGraphs.pack([dgn.testing.cycle(size) for size in (20, 21, 20, 22, 23, 20, 24, 25)])
    request = Request(2, None, "w") if weighted else Request(2)
    good = solve(graphs.with_values(edges={"w": torch.ones(graphs.num_edges)}), request)
    weight = torch.ones(graphs.num_edges)
    if weighted:
        weight[graphs.edge_pointer[3]] = torch.nan
    else:
        real = chunks.directions_of_many

        def break_down(graph: dgn.Graph, *args: Any) -> dgn.Directions:
            if (graph.batch.bincount() == 22).any():
                raise ArithmeticError("did not converge")
            return real(graph, *args)

        monkeypatch.setattr(chunks, "directions_of_many", break_down)
    chunk = solve(graphs.with_values(edges={"w": weight}), request)
    others = graphs.graph.batch != 3
    assert list(chunk.failures) == [3]
    assert torch.equal(chunk.potential[others], good.potential[others])
    assert not chunk.potential[~others].any()


def test_other_graphs_of_a_chunk_change_no_basis() -> None:
    """With 10,000 nodes more, :func:`dgn.directions` takes another solver."""
    ring, chain = dgn.testing.cycle(3), dgn.testing.path(9)
    single, together = (solve(PackedGraphs.pack([ring] + [chain] * count), Request()) for count in (0, 1200))
    assert torch.equal(single.potential, together.potential[:3])


def test_joined_chunks_equal_one_chunk_with_failures_by_index() -> None:
    graphs = random_graphs(20)
    expected = solve(graphs, Request())
    halves = [solve(take(graphs, 0, 7), Request()), solve(take(graphs, 7, 20), Request())]
    joined = ChunkDirections.join([halves[0], ChunkDirections.of(halves[1].tensors(), {2: "error"})])
    for name, value in joined.tensors().items():
        torch.testing.assert_close(value, expected.tensors()[name], equal_nan=True)
    assert joined.failures == {9: "error"}
