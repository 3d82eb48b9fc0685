"""PyG files, and suffixes of files."""

import sys
from pathlib import Path

import pytest
import torch
from torch_geometric.data import Data, InMemoryDataset

from dgn.data import PackedGraphs
from dgn.data.io.sources import directions_of_file, load_graphs


@pytest.fixture
def data(small: PackedGraphs) -> list[Data]:
    return [small[index] for index in range(len(small))]


def test_a_list_of_data_is_read(small: PackedGraphs, data: list[Data], tmp_path: Path) -> None:
    torch.save(data, tmp_path / "list.pt")
    assert load_graphs(tmp_path / "list.pt").checksum() == small.checksum()


def test_a_processed_dataset_is_read(small: PackedGraphs, data: list[Data], tmp_path: Path) -> None:
    InMemoryDataset.save(data, str(tmp_path / "data.pt"))
    assert load_graphs(tmp_path / "data.pt").checksum() == small.checksum()


def test_code_in_a_file_is_not_run(tmp_path: Path) -> None:
    torch.save([Path("a")], tmp_path / "code.pt")
    with pytest.raises(ValueError, match="expected tensors and PyG Data, got a pickle that could execute code"):
        load_graphs(tmp_path / "code.pt")


@pytest.mark.parametrize("content", [Data(edge_index=torch.tensor([[0], [1]]), num_nodes=2), {"a": torch.zeros(1)}])
def test_other_content_is_refused(content: object, tmp_path: Path) -> None:
    torch.save(content, tmp_path / "one.pt")
    with pytest.raises(ValueError, match=rf"one.pt: .* a list of Data, got {type(content).__name__}; save a list"):
        load_graphs(tmp_path / "one.pt")


@pytest.mark.parametrize("name", ["graphs.pt", "graphs.npz"])
def test_a_corrupt_file_is_named(small: PackedGraphs, data: list[Data], name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    small.save(file) if name.endswith("npz") else torch.save(data, file)
    content = file.read_bytes()
    for corrupt in (content[: len(content) // 2], b"hello", b""):
        file.write_bytes(corrupt)
        with pytest.raises(ValueError, match=rf"{name}: expected a complete file"):
            load_graphs(file)


@pytest.mark.parametrize("name", ["a.csv", "graphs"])
def test_other_suffixes_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a file called .safetensors, .npz, .parquet or .pt"):
        load_graphs(tmp_path / name)
    with pytest.raises(ValueError, match=r"expected a file called .safetensors or .parquet"):
        directions_of_file(tmp_path / "in.npz", tmp_path / name)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for name in ("none.pt", "none.npz", "none.safetensors", "none.parquet"):
        with pytest.raises(FileNotFoundError, match=rf"{name}: .* check the path"):
            load_graphs(tmp_path / name)


def test_a_table_without_pyarrow_is_refused_before_solving(
    data: list[Data], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.save(data, tmp_path / "in.pt")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"parquet: expected the package pyarrow, .*; install the extra 'tables'"):
        directions_of_file(tmp_path / "in.pt", tmp_path / "out.parquet")


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.touch, (self.path,))


def test_a_file_that_changes_while_it_is_read_runs_no_code(
    small: PackedGraphs, data: list[Data], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, load = tmp_path / "data.pt", torch.load
    InMemoryDataset.save(data, str(file))

    def load_then_swap(*args: object, **options: object) -> object:
        content = load(*args, **options)
        torch.save((Trap(tmp_path / "executed"), None), file)
        return content

    monkeypatch.setattr(torch, "load", load_then_swap)
    assert load_graphs(file).checksum() == small.checksum()
    assert not (tmp_path / "executed").exists()


def test_a_processed_dataset_with_other_slices_is_refused(data: list[Data], tmp_path: Path) -> None:
    InMemoryDataset.save(data, str(tmp_path / "data.pt"))
    content, slices, kind = torch.load(tmp_path / "data.pt", weights_only=True)
    torch.save((content, {**slices, "x": None}, kind), tmp_path / "data.pt")
    with pytest.raises(ValueError, match=r"data\.pt: expected a complete processed dataset, got"):
        load_graphs(tmp_path / "data.pt")


def test_a_flipped_bit_in_a_pyg_file_gives_an_error_or_the_same_graphs(
    small: PackedGraphs, data: list[Data], tmp_path: Path
) -> None:
    file, generator = tmp_path / "list.pt", torch.Generator().manual_seed(0)
    torch.save(data, file)
    content = file.read_bytes()
    for position in torch.randint(len(content), (200,), generator=generator).tolist():
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(torch.randint(8, (), generator=generator))
        file.write_bytes(damaged)
        try:
            assert load_graphs(file).checksum() == small.checksum(), position
        except ValueError as error:
            assert "list.pt: expected" in str(error)  # noqa: PT017, either outcome is fine
