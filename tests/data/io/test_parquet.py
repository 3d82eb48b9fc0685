"""Graphs in parquet tables."""

from pathlib import Path

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from dgn.data import PackedGraphs, add_directions
from dgn.data.io.parquet import graphs_of, table_of
from dgn.data.io.sources import directions_of_file, load_graphs
from tests.data.conftest import random_graphs

UNVERIFIED = "ignore:.*nothing vouches for it:UserWarning"
pytestmark = pytest.mark.filterwarnings(UNVERIFIED)  # most tables here are written by pyarrow alone


def shared_table(graphs: PackedGraphs) -> pyarrow.Table:
    """The layout of shared graph datasets: ``edge_index`` as a pair of lists per row."""
    dataset = [graphs[index] for index in range(len(graphs))]
    return pyarrow.table(
        {
            "edge_index": [data.edge_index.tolist() for data in dataset],
            "num_nodes": [data.num_nodes for data in dataset],
            "name": [f"molecule {index}" for index in range(len(dataset))],
            "y": [[0.5 * index] for index in range(len(dataset))],
        }
    )


def test_both_layouts_are_read(small: PackedGraphs) -> None:
    expected = PackedGraphs(small.node_pointer, small.edge_pointer, small.edge_index)
    lists = shared_table(small).select(["edge_index", "num_nodes"])
    assert graphs_of(lists).checksum() == expected.checksum()
    assert graphs_of(table_of(expected)).checksum() == expected.checksum()


def test_tensors_round_trip_through_a_table(small: PackedGraphs) -> None:
    more = small.with_values(
        nodes={"h": torch.rand(7, 2, 3)}, edges={"w": torch.rand(6).double()}, graphs={"t": torch.rand(3, 2)}
    )
    assert graphs_of(table_of(more)).checksum() == more.checksum()


@pytest.mark.parametrize("name", ["target", "source", "num_nodes", "edge_index", "x"])
def test_names_of_other_columns_are_refused(small: PackedGraphs, name: str, tmp_path: Path) -> None:
    small.with_values(graphs={name: torch.rand(3)}).save(tmp_path / "in.safetensors")
    with pytest.raises(ValueError, match=rf"{name}: expected a name that no other column"):
        directions_of_file(tmp_path / "in.safetensors", tmp_path / "out.parquet", k=1)
    assert not (tmp_path / "out.parquet").exists()


def test_a_column_called_target_next_to_edge_index_is_a_graph_tensor(small: PackedGraphs) -> None:
    table = shared_table(small).append_column("target", [[1.0, 2.0, 3.0]])
    assert graphs_of(table).graphs["target"].tolist() == [1.0, 2.0, 3.0]


def test_a_field_belongs_to_edges_even_if_there_are_as_many_nodes() -> None:
    pairs = PackedGraphs.pack([(torch.tensor([[0, 1], [1, 0]]), 2)] * 3)
    graphs = pairs.with_values(nodes={"node_potential": torch.rand(6, 2)}, edges={"edge_field": torch.rand(6, 2)})
    assert graphs_of(table_of(graphs)).checksum() == graphs.checksum()


def test_without_num_nodes_the_highest_node_is_the_last() -> None:
    table = pyarrow.table({"source": [[0, 4], []], "target": [[1, 0], []]}, schema=lists_of_int("source", "target"))
    assert graphs_of(table).node_pointer.tolist() == [0, 5, 5]


def lists_of_int(*names: str) -> pyarrow.Schema:
    return pyarrow.schema([(name, pyarrow.list_(pyarrow.int32())) for name in names])


@pytest.mark.parametrize(
    ("columns", "error"),
    [
        ({"edges": [[0]]}, "expected edge_index, or source and target, got edges"),
        ({"source": [[0, 1]], "target": [[1]]}, "row 0: expected as many sources as targets, got 2 and 1"),
        ({"edge_index": [[[0, 1], [1, 0]], [[0, 1], [1, 0], [0, 0]]]}, "two lists of equal length, .* in row 1"),
        ({"edge_index": [[[0, 1], [1, 0]], [[0], [1, 0]]]}, "two lists of equal length, .* in row 1"),
        ({"source": [[0], None], "target": [[1], [1]]}, "source: expected a list in every row, got null in row 1"),
        ({"source": [0], "target": [1]}, "source: expected a list column, got int64"),
        ({"source": [[0.5]], "target": [[1.5]]}, "source: expected integers, got double"),
        ({"source": [[0, None]], "target": [[1, 1]]}, "source: expected integers, got int64 with 1 missing"),
    ],
)
def test_malformed_columns_are_refused(columns: dict[str, list[object]], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        graphs_of(pyarrow.table(columns))


def write(path: Path, graphs: PackedGraphs, rows: int) -> Path:
    parquet.write_table(shared_table(graphs), path, row_group_size=rows)
    return path


def test_table_to_table_keeps_columns_and_adds_directions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = random_graphs(30)
    monkeypatch.setattr("dgn.data.io.parquet.ROWS", 8)
    source = write(tmp_path / "in.parquet", graphs, rows=5)
    summary = directions_of_file(source, tmp_path / "out.parquet", k=2)
    assert summary.graphs == 30
    table = parquet.read_table(tmp_path / "out.parquet")
    assert table["name"].to_pylist() == shared_table(graphs)["name"].to_pylist()
    added = add_directions(graphs, k=2)
    for index, row in enumerate(table.to_pylist()):
        data = added[index]
        assert np.allclose(np.array(row["node_potential"]).reshape(-1, 2), data.node_potential)
        assert np.allclose(np.array(row["edge_field"]).reshape(-1, 2), data.edge_field)
        assert row["component"] == data.component.tolist()
        assert len(row["eigenvalues"]) == len(row["repeated"]) == len(set(row["component"]))
    again = graphs_of(table)
    torch.testing.assert_close(again.nodes["node_potential"], added.nodes["node_potential"])
    assert again.edges["edge_field"].shape == (graphs.num_edges, 2)


def test_a_table_is_solved_again_in_place(tmp_path: Path) -> None:
    path = write(tmp_path / "in.parquet", random_graphs(9), rows=9)
    directions_of_file(path, path, k=1)
    directions_of_file(path, path, k=3)
    table = parquet.read_table(path)
    assert table.column_names.count("node_potential") == 1
    assert table.schema.field("node_potential").type.value_type.list_size == 3
    assert list(tmp_path.iterdir()) == [path]


def test_tables_and_packed_files_give_the_same_directions(tmp_path: Path) -> None:
    graphs = random_graphs(9)
    table = write(tmp_path / "in.parquet", graphs, rows=4)
    directions_of_file(table, tmp_path / "a.safetensors")
    packed = PackedGraphs.load(tmp_path / "a.safetensors")
    assert packed.graphs["y"].tolist() == [[0.5 * index] for index in range(9)]
    assert torch.equal(packed.nodes["node_potential"], add_directions(graphs).nodes["node_potential"])
    graphs.save(tmp_path / "b.safetensors")
    directions_of_file(tmp_path / "b.safetensors", tmp_path / "b.parquet")
    assert torch.equal(load_graphs(tmp_path / "b.parquet").nodes["node_potential"], packed.nodes["node_potential"])


def test_weights_and_failures_of_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.data.io.parquet.ROWS", 2)
    path = [[0, 1], [1, 2]]
    columns = {
        "edge_index": [path] * 5,
        "num_nodes": [3] * 5,
        "w": [[1.0, 1.0], [1.0, 9.0], [1.0, 1.0], [-1.0, 1.0], [1.0, 1.0]],
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "in.parquet")
    summary = directions_of_file(tmp_path / "in.parquet", tmp_path / "out.parquet", 1, edge_weight="w")
    assert list(summary.failures) == [3]
    value = parquet.read_table(tmp_path / "out.parquet")["eigenvalues"].to_pylist()
    assert value[0] == value[2] == value[4] != value[1]
    assert np.isnan(value[3][0][0])
    columns["w"][4] = [1.0]
    parquet.write_table(pyarrow.table(columns), tmp_path / "in.parquet")
    with pytest.raises(ValueError, match="counting rows from 4: edge_weight: expected one number per edge in 'w'"):
        directions_of_file(tmp_path / "in.parquet", tmp_path / "none.parquet", 1, edge_weight="w")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_a_table_without_rows(tmp_path: Path) -> None:
    source = write(tmp_path / "in.parquet", random_graphs(3), rows=3)
    parquet.write_table(parquet.read_table(source)[:0], source)
    assert directions_of_file(source, tmp_path / "out.parquet").graphs == 0
    assert "node_potential" in parquet.read_table(tmp_path / "out.parquet").column_names


def test_missing_and_malformed_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="check the path"):
        load_graphs(tmp_path / "none.parquet")
    (tmp_path / "a.parquet").write_bytes(b"no table")
    with pytest.raises(ValueError, match="expected a parquet table"):
        load_graphs(tmp_path / "a.parquet")


@pytest.fixture
def written(small: PackedGraphs, tmp_path: Path) -> Path:
    """A table as ``dgn directions`` writes it."""
    small.save(tmp_path / "in.safetensors")
    directions_of_file(tmp_path / "in.safetensors", tmp_path / "out.parquet", k=1)
    return tmp_path / "out.parquet"


def test_a_flipped_bit_gives_an_error_or_the_same_graphs(written: Path) -> None:
    content, expected, refused = written.read_bytes(), load_graphs(written).checksum(), 0
    generator = np.random.default_rng(0)
    for position in generator.integers(len(content), size=150):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(generator.integers(8))
        written.write_bytes(damaged)
        try:
            assert load_graphs(written).checksum() == expected, position
        except ValueError as error:
            assert "out.parquet: expected" in str(error)  # noqa: PT017, either outcome is fine
            refused += 1
    assert refused > 90  # most bits are data, not names or padding


def test_a_table_with_other_values_than_it_states_is_refused(written: Path) -> None:
    table, stated = parquet.read_table(written), parquet.ParquetFile(written).metadata.metadata
    changed = table.set_column(table.column_names.index("y"), "y", [[1.5, 2.5, 3.25]])
    parquet.write_table(changed.replace_schema_metadata({b"dgn.digest": stated[b"dgn.digest"]}), written)
    with pytest.raises(ValueError, match=r"out\.parquet: expected content of digest .* corrupt, write it again"):
        load_graphs(written)
    with pytest.raises(ValueError, match=r"out\.parquet: expected content of digest"):
        directions_of_file(written, written.with_name("more.parquet"), k=2)
    assert not written.with_name("more.parquet").exists()


def test_pages_have_checksums(written: Path) -> None:
    content, page = written.read_bytes(), parquet.ParquetFile(written).metadata.row_group(0).column(0)
    damaged = bytearray(content)
    start = page.dictionary_page_offset or page.data_page_offset
    damaged[start + page.total_compressed_size - 1] ^= 1
    written.write_bytes(damaged)
    with pytest.raises(ValueError, match=r"out\.parquet: expected a parquet table, got .*CRC"):
        load_graphs(written)


@pytest.mark.filterwarnings("default")
def test_a_table_of_another_program_is_read_with_a_warning(small: PackedGraphs, written: Path) -> None:
    foreign = written.with_name("foreign.parquet")
    parquet.write_table(table_of(small), foreign)
    with pytest.warns(UserWarning, match=r"foreign\.parquet: .* nothing vouches for it"):
        assert load_graphs(foreign).checksum() == small.checksum()
    with pytest.warns(UserWarning, match=r"foreign\.parquet: .* nothing vouches for it"):
        directions_of_file(foreign, written)


def test_an_absurd_node_in_a_table_is_refused() -> None:
    table = pyarrow.table({"source": [[0, 2**62]], "target": [[1, 0]]})
    with pytest.raises(ValueError, match=f"edge_index: expected nodes numbered from 0, got node {2**62}"):
        graphs_of(table)
