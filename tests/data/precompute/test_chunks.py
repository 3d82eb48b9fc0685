"""Chunks: every graph once, cut by size alone, and a chunk that fails is solved in parts."""

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
    assert [number for begin, end in bounds for number in range(begin, end)] == list(range(len(sizes)))
    for begin, end in bounds:
        nodes = int(pointer[end] - pointer[begin])
        assert nodes - sizes[end - 1] < MOST_NODES
        assert end == len(sizes) or (end - begin >= GRAPHS and nodes >= NODES) or nodes >= MOST_NODES


def test_a_chunk_holds_its_graphs(small: PackedGraphs) -> None:
    part = take(small, 1, 3, "edge_attr")
    assert not part.nodes
    assert part.edge_index.tolist() == [[0, 1], [1, 0]]
    assert part.node_pointer.tolist() == [0, 0, 4]
    assert part.edges["edge_attr"].tolist() == [4, 5]


@pytest.mark.parametrize("normalization", [None, "rw"])
def test_a_chunk_gives_what_each_graph_gives_alone(normalization: str | None) -> None:
    graphs = random_graphs(30)
    found = solve(graphs, Request(3, normalization))  # type: ignore[arg-type]
    node, edge, component = 0, 0, 0
    for number in range(len(graphs)):
        data = graphs[number]
        alone = dgn.directions(data.edge_index, data.num_nodes, k=3, normalization=normalization)  # type: ignore[arg-type]
        rows = slice(node, node + data.num_nodes)
        parts = slice(component, component + len(alone.eigenvalues))
        assert torch.equal(found.component[rows].long(), alone.component)
        assert int(found.components[number]) == len(alone.eigenvalues)
        torch.testing.assert_close(found.eigenvalues[parts], alone.eigenvalues, equal_nan=True)
        assert torch.equal(found.repeated[parts], alone.repeated())
        simple = ~alone.repeated()[alone.component]
        torch.testing.assert_close(found.potential[rows][simple], alone.potential.float()[simple])
        field = found.field[edge : edge + data.num_edges]
        torch.testing.assert_close(field, dgn.gradient(found.potential[rows], data.edge_index), atol=1e-6, rtol=0)
        node, edge, component = rows.stop, edge + data.num_edges, parts.stop


def test_weights_enter() -> None:
    path = torch.tensor([[0, 1], [1, 2]])
    weighted = PackedGraphs.pack([(path, 3)]).with_values(edges={"w": torch.tensor([1, 5])})
    found = solve(weighted, Request(1, None, "w"))
    weight = torch.tensor([1.0, 5.0])
    assert torch.equal(found.eigenvalues, chunks.directions_of_many(dgn.as_graph(path), 1, None, weight).eigenvalues)
    torch.testing.assert_close(found.eigenvalues, dgn.directions(path, 3, 1, edge_weight=weight).eigenvalues)
    assert not torch.equal(found.eigenvalues, solve(weighted, Request(1)).eigenvalues)


def test_graphs_that_fail_are_named_and_the_rest_goes_on() -> None:
    graphs = random_graphs(40)
    weight = torch.ones(graphs.num_edges)
    good = solve(graphs.with_values(edges={"w": weight}), Request(2, None, "w"))
    bad = [number for number in (7, 8, 30) if graphs[number].num_edges]
    for number in bad:
        weight[graphs.edge_pointer[number]] = torch.nan
    found = solve(graphs.with_values(edges={"w": weight}), Request(2, None, "w"))
    assert list(found.failures) == bad
    assert "expected finite numbers, got nan" in found.failures[bad[0]]
    failed = torch.isin(graphs.graph.batch, torch.tensor(bad))  # type: ignore[arg-type]
    assert torch.equal(found.potential[~failed], good.potential[~failed])
    assert not found.potential[failed].any()
    assert (found.component[failed] == 0).all()
    assert (found.components[bad] == 1).all()
    assert found.components.sum() == len(found.eigenvalues) == len(found.gap) == len(found.repeated)
    assert int(found.components[bad[0]]) == 1


def test_no_graphs_cannot_fail_over_and_over() -> None:
    none = PackedGraphs.pack([]).with_values(edges={"edge_weight": torch.zeros(0, 1)})
    with pytest.raises(ValueError, match=r"edge_weight: expected shape \[0\], got \[0, 1\]"):
        solve(none, Request(1, edge_weight="edge_weight"))


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

        def break_down(graph: dgn.Graph, *asked: Any) -> dgn.Directions:
            if (graph.batch.bincount() == 22).any():
                raise ArithmeticError("did not converge")
            return real(graph, *asked)

        monkeypatch.setattr(chunks, "directions_of_many", break_down)
    found = solve(graphs.with_values(edges={"w": weight}), request)
    others = graphs.graph.batch != 3
    assert list(found.failures) == [3]
    assert torch.equal(found.potential[others], good.potential[others])
    assert not found.potential[~others].any()


def test_graphs_beside_one_change_no_basis() -> None:
    """With 10,000 nodes more, :func:`dgn.directions` takes another solver."""
    ring, chain = dgn.testing.cycle(3), dgn.testing.path(9)
    alone, beside = (solve(PackedGraphs.pack([ring] + [chain] * count), Request()) for count in (0, 1200))
    assert torch.equal(alone.potential, beside.potential[:3])


def test_joining_keeps_numbers() -> None:
    graphs = random_graphs(20)
    whole = solve(graphs, Request())
    parts = [solve(take(graphs, 0, 7), Request()), solve(take(graphs, 7, 20), Request())]
    joined = ChunkDirections.join([parts[0], ChunkDirections.of(parts[1].tensors(), {2: "why"})])
    for name, value in joined.tensors().items():
        torch.testing.assert_close(value, whole.tensors()[name], equal_nan=True)
    assert joined.failures == {9: "why"}
