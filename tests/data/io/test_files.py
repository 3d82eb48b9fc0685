"""Files of packed graphs: read back exactly, or refused."""

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from dgn.data import PackedGraphs
from dgn.data.io.files import read_tensors


@pytest.fixture
def file(small: PackedGraphs, tmp_path: Path) -> Path:
    path = tmp_path / "deeper" / "small.safetensors"
    replace(small, info={"source": "by hand"}).save(path)
    return path


def test_a_file_round_trips(small: PackedGraphs, file: Path) -> None:
    again = PackedGraphs.load(file)
    assert again.checksum() == small.checksum()
    assert again.info == {"source": "by hand"}
    assert again.nodes["x"].dtype == torch.float32
    assert again.edges["edge_attr"].dtype == torch.uint8


def test_tensors_that_share_memory_are_written(tmp_path: Path) -> None:
    pointer, values = torch.tensor([0, 2, 4]), torch.arange(8.0)
    pairs = PackedGraphs(pointer, pointer, torch.tensor([[0, 1, 0, 1], [1, 0, 1, 0]]))
    graphs = pairs.with_values(nodes={"a": values[:4], "b": values[2:6], "c": values[:4]}, edges={"a": values[4:]})
    graphs.save(tmp_path / "shared.safetensors")
    again = PackedGraphs.load(tmp_path / "shared.safetensors")
    assert again.checksum() == graphs.checksum()
    assert again.nodes["b"].tolist() == [2, 3, 4, 5]


def test_the_same_graphs_give_the_same_bytes(small: PackedGraphs, tmp_path: Path) -> None:
    several = small.with_values(nodes={"a": torch.zeros(7), "b": torch.ones(7)})
    contents = set()
    for info in ({"a": "1", "b": "2", "c": "3"}, {"c": "3", "b": "2", "a": "1"}) * 4:
        backwards = replace(several, nodes=dict(reversed(several.nodes.items())), info=info)
        backwards.save(tmp_path / "a.safetensors")
        contents.add((tmp_path / "a.safetensors").read_bytes())
    assert len(contents) == 1


def test_permissions_are_those_of_the_umask(file: Path) -> None:
    (file.parent / "plain").touch()
    assert file.stat().st_mode == (file.parent / "plain").stat().st_mode


@pytest.mark.parametrize("flip", [0x01, 0xFF])
def test_a_flipped_byte_is_found_wherever_it_is(file: Path, flip: int) -> None:
    content = bytearray(file.read_bytes())
    for byte in range(len(content)):
        content[byte] ^= flip
        file.write_bytes(content)
        with pytest.raises(ValueError, match="small"):
            PackedGraphs.load(file)
        content[byte] ^= flip
    file.write_bytes(content)
    PackedGraphs.load(file)


def test_a_truncated_file_is_refused(file: Path) -> None:
    content = file.read_bytes()
    for length in (0, 7, 100, len(content) - 1):
        file.write_bytes(content[:length])
        with pytest.raises(ValueError, match="expected a file of"):
            PackedGraphs.load(file)


@pytest.mark.parametrize("metadata", ["[1]", '"dgn graphs 1"', "null", "[" * 100_000])
def test_malformed_metadata_are_refused(tmp_path: Path, metadata: str) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "a.safetensors", {"dgn": metadata})
    with pytest.raises(ValueError, match=r"a\.safetensors: expected (a file of|format) 'dgn tensors 1', got"):
        read_tensors(tmp_path / "a.safetensors", "dgn tensors 1")


def test_other_formats_are_refused(tmp_path: Path) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "other.safetensors")
    with pytest.raises(ValueError, match="expected format 'dgn graphs 1', got None"):
        PackedGraphs.load(tmp_path / "other.safetensors")
    with pytest.raises(FileNotFoundError, match="check the path"):
        PackedGraphs.load(tmp_path / "nothing.safetensors")


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    small: PackedGraphs, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_the_disk(_: object, path: Path, __: object) -> None:
        path.write_bytes(b"the first bytes")
        raise OSError("no space left")

    before = file.read_bytes()
    monkeypatch.setattr("dgn.data.io.files.save_file", fill_the_disk)
    with pytest.raises(OSError, match="no space left"):
        small.save(file)
    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def arrays() -> dict[str, np.ndarray]:
    return {
        "node_ptr": np.array([0, 3, 5], dtype=np.int32),
        "edge_ptr": np.array([0, 4, 6], dtype=np.int32),
        "edge_index": np.array([[0, 1, 1, 2, 0, 1], [1, 0, 2, 1, 1, 0]], dtype=np.uint8),
    }


def test_an_npz_is_read_by_the_rows_of_its_arrays(tmp_path: Path) -> None:
    values = {"x": np.ones((5, 2)), "edge_attr": np.ones(6), "y": np.ones(2), "names": np.array(["a", "b"])}
    np.savez(tmp_path / "a.npz", **arrays(), **values, mean=np.ones(3), scale=np.float32(1))
    packed = PackedGraphs.load(tmp_path / "a.npz")
    assert (list(packed.nodes), list(packed.edges), list(packed.graphs)) == (["x"], ["edge_attr"], ["y"])
    assert packed.graph.edge_index.tolist() == [[0, 1, 1, 2, 3, 4], [1, 0, 2, 1, 4, 3]]


def test_ambiguous_arrays_must_be_prefixed(tmp_path: Path) -> None:
    equal = arrays() | {"node_ptr": np.array([0, 3, 6])}
    np.savez(tmp_path / "a.npz", **equal, charge=np.ones(6))
    with pytest.raises(ValueError, match=r"charge: .* call it nodes.charge or edges.charge"):
        PackedGraphs.load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", **equal, x=np.ones(6), edge_attr=np.ones(6), **{"edges.charge": np.ones(6)})
    packed = PackedGraphs.load(tmp_path / "b.npz")
    assert (list(packed.nodes), sorted(packed.edges)) == (["x"], ["charge", "edge_attr"])


def test_missing_arrays_are_named(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", node_ptr=np.zeros(1))
    with pytest.raises(ValueError, match="none named edge_ptr, edge_index"):
        PackedGraphs.load(tmp_path / "a.npz")


def test_an_npz_that_would_fill_the_memory_is_refused_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "bomb.npz", **arrays(), x=np.zeros(2_000_000))
    monkeypatch.setenv("DGN_MAX_NPZ_GB", "0.01")
    monkeypatch.setattr("numpy.lib.format.read_array", None)
    with pytest.raises(
        ValueError, match=r"bomb\.npz: expected at most 0\.01 GB unpacked, got 0\.0 GB; set DGN_MAX_NPZ_GB"
    ):
        PackedGraphs.load(tmp_path / "bomb.npz")
    monkeypatch.setenv("DGN_MAX_NPZ_GB", "much")
    with pytest.raises(ValueError, match="DGN_MAX_NPZ_GB: expected a number of gigabytes above 0, got 'much'"):
        PackedGraphs.load(tmp_path / "bomb.npz")


def test_an_array_that_claims_to_be_larger_than_its_file_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays(), x=np.zeros(5))
    content = io.BytesIO()
    np.lib.format.write_array(content, np.zeros(5))
    claim = content.getvalue().replace(b"(5,), }" + b" " * 12, b"(1099511627776,), }")
    with zipfile.ZipFile(tmp_path / "a.npz") as old, zipfile.ZipFile(tmp_path / "b.npz", "w") as new:
        for name in old.namelist():
            new.writestr(name, claim if name == "x.npy" else old.read(name))
    with pytest.raises(ValueError, match=r"b\.npz: expected a complete file, got .*x\.npy: an array of 87960"):
        PackedGraphs.load(tmp_path / "b.npz")


@pytest.mark.parametrize(
    "changes",
    [{"node_ptr": np.array([])}, {"edge_index": np.zeros((2, 6))}, {"node_ptr": np.array([0, 9, 5])}, {"y": object()}],
)
def test_an_npz_of_other_content_is_refused_by_name(tmp_path: Path, changes: dict[str, np.ndarray]) -> None:
    np.savez(tmp_path / "a.npz", **arrays() | changes)
    with pytest.raises(ValueError, match=r"a\.npz: "):
        PackedGraphs.load(tmp_path / "a.npz")


def test_a_flipped_bit_in_an_npz_gives_an_error_or_the_same_graphs(small: PackedGraphs, tmp_path: Path) -> None:
    small.save(tmp_path / "a.npz")
    content, generator = (tmp_path / "a.npz").read_bytes(), np.random.default_rng(0)
    for position in generator.integers(len(content), size=300):
        damaged = bytearray(content)
        damaged[position] ^= 1 << int(generator.integers(8))
        (tmp_path / "a.npz").write_bytes(damaged)
        try:
            assert PackedGraphs.load(tmp_path / "a.npz").checksum() == small.checksum(), position
        except ValueError as error:
            assert "a.npz: expected" in str(error)  # noqa: PT017, either outcome is fine
