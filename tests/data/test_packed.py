"""Packed graphs round-trip as Data, as files, and as one disconnected graph."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from dgn.data import PackedGraphs


def equal(a: PackedGraphs, b: PackedGraphs) -> bool:
    return a.checksum() == b.checksum() and a.info == b.info


def test_all_graphs_form_one_disconnected_graph(small: PackedGraphs) -> None:
    graph = small.graph
    assert graph.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]
    assert graph.num_graphs == 3
    assert graph.batch is not None
    assert graph.batch.tolist() == [0, 0, 0, 2, 2, 2, 2]


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.uint16, torch.uint32, torch.uint64])
def test_edge_index_may_have_any_integer_dtype(small: PackedGraphs, dtype: torch.dtype) -> None:
    other = PackedGraphs(small.node_pointer, small.edge_pointer, small.edge_index.to(dtype))
    assert torch.equal(other.graph.edge_index, small.graph.edge_index)
    assert torch.equal(
        other.select(torch.tensor([2])).graph.edge_index, small.select(torch.tensor([2])).graph.edge_index
    )


def test_an_edge_into_the_next_graph_is_refused(small: PackedGraphs) -> None:
    index = small.edge_index.clone()
    index[1, 2] = 3
    broken = PackedGraphs(small.node_pointer, small.edge_pointer, index)
    with pytest.raises(ValueError, match=r"nodes below 3, the size of their graph, got \[1, 3\] in graph 0"):
        _ = broken.graph


def test_select_accepts_any_order_and_repeats(small: PackedGraphs) -> None:
    selected = small.select(torch.tensor([2, 0, 2]))
    assert selected.node_pointer.tolist() == [0, 4, 7, 11]
    assert selected.edge_index.tolist() == [[0, 1, 0, 1, 1, 2, 0, 1], [1, 0, 1, 0, 2, 1, 1, 0]]
    assert selected.nodes["x"][:, 0].tolist() == [6, 8, 10, 12, 0, 2, 4, 6, 8, 10, 12]
    assert selected.edges["edge_attr"].tolist() == [4, 5, 0, 1, 2, 3, 4, 5]
    assert selected.graphs["y"].tolist() == [3.5, 1.5, 3.5]


@pytest.mark.parametrize("index", [[-2], [0, -1], [3]])
def test_indices_out_of_range_are_refused(small: PackedGraphs, index: list[int]) -> None:
    with pytest.raises(IndexError, match="graphs from 0 to below 3"):
        small.select(torch.tensor(index))


def test_one_graph_as_data(small: PackedGraphs) -> None:
    data = small[-1]
    assert (data.num_nodes, data.edge_index.tolist(), data.y.tolist()) == (4, [[0, 1], [1, 0]], [3.5])
    assert (data.x[0].tolist(), data.edge_attr.tolist()) == ([6, 7], [4, 5])
    assert small[1].num_nodes == 0
    with pytest.raises(IndexError, match="below 3, got 3"):
        small[3]


def test_data_round_trip(small: PackedGraphs) -> None:
    again = PackedGraphs.from_data([small[0], small[1], small[2]])
    assert equal(again, small)


def test_graph_attributes_are_stacked() -> None:
    edge = torch.tensor([[0], [1]])
    tasks = [Data(edge_index=edge, num_nodes=2, y=torch.tensor([i, 7.0, 8.0]), mass=0.5 + i) for i in range(4)]
    packed = PackedGraphs.from_data(tasks)
    assert packed.graphs["y"].shape == (4, 3)
    assert packed.graphs["mass"].tolist() == [0.5, 1.5, 2.5, 3.5]
    rows = PackedGraphs.from_data([Data(edge_index=edge, num_nodes=2, y=torch.zeros(1, 5)) for _ in range(4)])
    assert rows.graphs["y"].shape == (4, 5)


def test_all_graphs_decide_whether_an_attribute_is_of_nodes_edges_or_graphs() -> None:
    # In the first graph alone, y could belong to its one node, and x to its edges.
    one = Data(edge_index=torch.tensor([[0], [0]]), x=torch.zeros(1, 3), edge_attr=torch.zeros(1), y=torch.zeros(1))
    two = Data(edge_index=torch.tensor([[0], [1]]), x=torch.zeros(2, 3), edge_attr=torch.ones(1), y=torch.ones(1))
    packed = PackedGraphs.from_data([one, two])
    assert (list(packed.nodes), list(packed.edges), list(packed.graphs)) == (["x"], ["edge_attr"], ["y"])


def test_strings_are_dropped() -> None:
    packed = PackedGraphs.from_data([Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2, smiles="CC")])
    assert packed.checksum() == PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)]).checksum()


def test_numpy_scalars_are_packed() -> None:
    edge = torch.tensor([[0], [1]])
    dataset = [
        Data(edge_index=edge, num_nodes=2, y=np.int64(i), mass=np.float32(i), odd=np.bool_(i % 2)) for i in range(3)
    ]
    packed = PackedGraphs.from_data(dataset)
    assert {name: value.tolist() for name, value in packed.graphs.items()} == {
        "y": [0, 1, 2],
        "mass": [0.0, 1.0, 2.0],
        "odd": [False, True, False],
    }


def test_data_without_edge_index_are_refused() -> None:
    points = Data(x=torch.rand(3, 2))
    with pytest.raises(ValueError, match=r"graph 1: expected a PyG Data with edge_index"):
        PackedGraphs.from_data([Data(x=torch.rand(3, 2), edge_index=torch.tensor([[0], [1]])), points])
    with pytest.raises(ValueError, match=r"graph 0: expected a PyG Data with edge_index, .* give a list of Data"):
        PackedGraphs.from_data(Data(x=torch.rand(2, 1), edge_index=torch.tensor([[0], [1]])))


def test_edges_to_missing_nodes_are_refused() -> None:
    dataset = [Data(x=torch.rand(2, 1), edge_index=torch.tensor([[0, 1], [1, end]])) for end in (0, 1, 7)]
    with pytest.raises(ValueError, match=r"nodes below 2, .* got \[1, 7\] in graph 2; number the nodes"):
        PackedGraphs.from_data(dataset)


def test_attributes_of_different_widths_are_refused() -> None:
    dataset = [Data(x=torch.rand(2, width), edge_index=torch.tensor([[0], [1]])) for width in (3, 3, 4)]
    with pytest.raises(ValueError, match=r"x of graph 2: expected rows of shape \[3\], as in graph 0, got \[4\]; give"):
        PackedGraphs.from_data(dataset)


def test_a_missing_attribute_is_refused() -> None:
    edge = torch.tensor([[0], [1]])
    dataset = [Data(edge_index=edge, num_nodes=2, y=torch.zeros(1)), Data(edge_index=edge, num_nodes=2)]
    with pytest.raises(ValueError, match=r"graph 1: expected the attributes .* got no y"):
        PackedGraphs.from_data(dataset)


def test_num_nodes_may_be_explicit_in_some_graphs() -> None:
    edge = torch.tensor([[0], [1]])
    dataset = [Data(edge_index=edge, x=torch.zeros(3, 1), num_nodes=3), Data(edge_index=edge, x=torch.ones(2, 1))]
    packed = PackedGraphs.from_data(dataset)
    assert (packed.node_pointer.tolist(), packed.nodes["x"].flatten().tolist()) == ([0, 3, 5], [0, 0, 0, 1, 1])


def test_no_graphs(tmp_path: Path) -> None:
    for packed in (PackedGraphs.pack([]), PackedGraphs.from_data([])):
        assert (len(packed), packed.graph.num_nodes, packed.graph.num_graphs) == (0, 0, 0)
        packed.save(tmp_path / "none.safetensors")
        assert equal(PackedGraphs.load(tmp_path / "none.safetensors"), packed)


@pytest.mark.parametrize("rows", [("nodes", 6), ("edges", 7), ("graphs", 2)])
def test_tensors_with_another_number_of_rows_are_refused(small: PackedGraphs, rows: tuple[str, int]) -> None:
    with pytest.raises(ValueError, match="z"):
        small.with_values(**{rows[0]: {"z": torch.zeros(rows[1])}})


def test_pointers_and_edge_index_are_checked() -> None:
    good = torch.tensor([0, 2])
    with pytest.raises(ValueError, match="node_pointer: expected"):
        PackedGraphs(torch.tensor([0, 2, 1]), torch.tensor([0, 0, 0]), torch.zeros(2, 0, dtype=torch.long))
    with pytest.raises(ValueError, match=r"edge_index: expected shape \[2, 2\]"):
        PackedGraphs(good, good, torch.zeros(2, 3, dtype=torch.long))


def test_moving_to_a_device_changes_nothing(small: PackedGraphs) -> None:
    assert equal(small.to("cpu"), small)


def test_a_field_belongs_to_edges_even_if_there_are_as_many_nodes() -> None:
    ring = Data(edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), num_nodes=3, edge_field=torch.ones(3, 1))
    packed = PackedGraphs.from_data([ring, ring])
    assert (set(packed.nodes), set(packed.edges)) == (set(), {"edge_field"})
