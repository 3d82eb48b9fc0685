"""Packed graphs: what goes in comes out, one by one, as a file, and as one graph."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from dgn.data import PackedGraphs


def equal(a: PackedGraphs, b: PackedGraphs) -> bool:
    return a.checksum() == b.checksum() and a.info == b.info


def test_graphs_side_by_side(small: PackedGraphs) -> None:
    graph = small.graph
    assert graph.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert graph.num_graphs == 3
    assert graph.batch is not None
    assert graph.batch.tolist() == [0, 0, 0, 2, 2, 2, 2]


@pytest.mark.parametrize("kind", [torch.uint8, torch.int16, torch.uint16, torch.uint32, torch.uint64])
def test_nodes_are_counted_in_any_integers(small: PackedGraphs, kind: torch.dtype) -> None:
    other = PackedGraphs(small.node_pointer, small.edge_pointer, small.edge_index.to(kind))
    assert torch.equal(other.graph.edge_index, small.graph.edge_index)
    assert torch.equal(
        other.select(torch.tensor([2])).graph.edge_index, small.select(torch.tensor([2])).graph.edge_index
    )


def test_an_edge_into_the_next_graph_is_refused(small: PackedGraphs) -> None:
    index = small.edge_index.clone()
    index[1, 2] = 3
    broken = PackedGraphs(small.node_pointer, small.edge_pointer, index)
    with pytest.raises(ValueError, match=r"below the 3 of their own graph, got \[1, 3\] in graph 0"):
        _ = broken.graph


def test_select_takes_any_order_and_repeats(small: PackedGraphs) -> None:
    chosen = small.select(torch.tensor([2, 0, 2]))
    assert chosen.node_pointer.tolist() == [0, 4, 7, 11]
    assert chosen.edge_index.tolist() == [[0, 1, 0, 1, 1, 2, 0, 1], [1, 0, 1, 0, 2, 1, 1, 0]]
    assert chosen.nodes["x"][:, 0].tolist() == [6, 8, 10, 12, 0, 2, 4, 6, 8, 10, 12]
    assert chosen.edges["edge_attr"].tolist() == [4, 5, 0, 1, 2, 3, 4, 5]
    assert chosen.graphs["y"].tolist() == [3.5, 1.5, 3.5]


@pytest.mark.parametrize("numbers", [[-2], [0, -1], [3]])
def test_numbers_of_no_graph_are_refused(small: PackedGraphs, numbers: list[int]) -> None:
    with pytest.raises(IndexError, match="graphs from 0 to below 3"):
        small.select(torch.tensor(numbers))


def test_one_graph_as_data(small: PackedGraphs) -> None:
    data = small[-1]
    assert (data.num_nodes, data.edge_index.tolist(), data.y.tolist()) == (4, [[0, 1], [1, 0]], [3.5])
    assert (data.x[0].tolist(), data.edge_attr.tolist()) == ([6, 7], [4, 5])
    assert small[1].num_nodes == 0
    with pytest.raises(IndexError, match="below 3, got 3"):
        small[3]


def test_data_come_back_as_they_went_in(small: PackedGraphs) -> None:
    again = PackedGraphs.from_data([small[0], small[1], small[2]])
    assert equal(again, small)


def test_values_of_graphs() -> None:
    edge = torch.tensor([[0], [1]])
    tasks = [Data(edge_index=edge, num_nodes=2, y=torch.tensor([i, 7.0, 8.0]), mass=0.5 + i) for i in range(4)]
    packed = PackedGraphs.from_data(tasks)
    assert packed.graphs["y"].shape == (4, 3)
    assert packed.graphs["mass"].tolist() == [0.5, 1.5, 2.5, 3.5]
    rows = PackedGraphs.from_data([Data(edge_index=edge, num_nodes=2, y=torch.zeros(1, 5)) for _ in range(4)])
    assert rows.graphs["y"].shape == (4, 5)


def test_kinds_are_told_apart_by_all_graphs() -> None:
    # In the first graph alone, y could belong to its one node, and x to its edges.
    one = Data(edge_index=torch.tensor([[0], [0]]), x=torch.zeros(1, 3), edge_attr=torch.zeros(1), y=torch.zeros(1))
    two = Data(edge_index=torch.tensor([[0], [1]]), x=torch.zeros(2, 3), edge_attr=torch.ones(1), y=torch.ones(1))
    packed = PackedGraphs.from_data([one, two])
    assert (list(packed.nodes), list(packed.edges), list(packed.graphs)) == (["x"], ["edge_attr"], ["y"])


def test_words_are_left_out() -> None:
    packed = PackedGraphs.from_data([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, smiles="CC")])
    assert packed.checksum() == PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)]).checksum()


def test_numbers_of_numpy_are_numbers() -> None:
    edge = torch.tensor([[0], [1]])
    given = [
        Data(edge_index=edge, num_nodes=2, y=np.int64(i), mass=np.float32(i), odd=np.bool_(i % 2)) for i in range(3)
    ]
    packed = PackedGraphs.from_data(given)
    assert {name: value.tolist() for name, value in packed.graphs.items()} == {
        "y": [0, 1, 2],
        "mass": [0.0, 1.0, 2.0],
        "odd": [False, True, False],
    }


def test_data_without_edge_index_are_named() -> None:
    points = Data(x=torch.rand(3, 2))
    with pytest.raises(ValueError, match=r"graph 1: expected a PyG Data with edge_index"):
        PackedGraphs.from_data([Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0], [1]])), points])
    with pytest.raises(ValueError, match=r"graph 0: expected a PyG Data with edge_index, .* give a list of Data"):
        PackedGraphs.from_data(Data(x=torch.rand(2, 1), edge_index=torch.tensor([[0], [1]])))


def test_edges_to_no_node_are_named() -> None:
    given = [Data(x=torch.rand(2, 1), edge_index=torch.tensor([[0, 1], [1, end]])) for end in (0, 1, 7)]
    with pytest.raises(ValueError, match=r"below the 2 of their own graph, got \[1, 7\] in graph 2; count nodes"):
        PackedGraphs.from_data(given)


def test_values_of_different_widths_are_named() -> None:
    given = [Data(x=torch.rand(2, width), edge_index=torch.tensor([[0], [1]])) for width in (3, 3, 4)]
    with pytest.raises(ValueError, match=r"x of graph 2: expected rows of shape \[3\], as in graph 0, got \[4\]; give"):
        PackedGraphs.from_data(given)


def test_a_missing_attribute_is_named() -> None:
    edge = torch.tensor([[0], [1]])
    given = [Data(edge_index=edge, num_nodes=2, y=torch.zeros(1)), Data(edge_index=edge, num_nodes=2)]
    with pytest.raises(ValueError, match=r"graph 1: expected the attributes .* got no y"):
        PackedGraphs.from_data(given)


def test_some_graphs_tell_their_number_of_nodes() -> None:
    edge = torch.tensor([[0], [1]])
    given = [Data(edge_index=edge, x=torch.zeros(3, 1), num_nodes=3), Data(edge_index=edge, x=torch.ones(2, 1))]
    packed = PackedGraphs.from_data(given)
    assert (packed.node_pointer.tolist(), packed.nodes["x"].flatten().tolist()) == ([0, 3, 5], [0, 0, 0, 1, 1])


def test_no_graphs(tmp_path: Path) -> None:
    for packed in (PackedGraphs.pack([]), PackedGraphs.from_data([])):
        assert (len(packed), packed.graph.num_nodes, packed.graph.num_graphs) == (0, 0, 0)
        packed.save(tmp_path / "none.safetensors")
        assert equal(PackedGraphs.load(tmp_path / "none.safetensors"), packed)


@pytest.mark.parametrize("rows", [("nodes", 6), ("edges", 7), ("graphs", 2)])
def test_values_need_their_rows(small: PackedGraphs, rows: tuple[str, int]) -> None:
    with pytest.raises(ValueError, match="z"):
        small.with_values(**{rows[0]: {"z": torch.zeros(rows[1])}})


def test_structure_is_checked() -> None:
    good = torch.tensor([0, 2])
    with pytest.raises(ValueError, match="node_pointer: expected"):
        PackedGraphs(torch.tensor([0, 2, 1]), torch.tensor([0, 0, 0]), torch.zeros(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match=r"edge_index: expected shape \[2, 2\]"):
        PackedGraphs(good, good, torch.zeros(2, 3, dtype=torch.long))


def test_moving_keeps_everything(small: PackedGraphs) -> None:
    assert equal(small.to("cpu"), small)


def test_a_field_belongs_to_edges_also_where_there_are_as_many_nodes() -> None:
    ring = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3, field=torch.ones(3, 1))
    packed = PackedGraphs.from_data([ring, ring])
    assert (set(packed.nodes), set(packed.edges)) == (set(), {"field"})
