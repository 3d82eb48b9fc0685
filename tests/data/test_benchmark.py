"""Benchmarks by name, from files, folders and the cache, and clear errors if they are missing."""

import os
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from dgn.data.benchmark import TASKS, load_benchmark, with_directions, with_fraction
from dgn.data.datasets import downloads
from dgn.data.datasets.paths import cached_graphs, describe_files, find_source
from dgn.data.packed import PackedGraphs
from dgn.training.objectives import make_objective

DATA = Path(__file__).parents[3] / "shared" / "data"


def write_zinc(folder: Path, **changes: np.ndarray) -> Path:
    """Two molecules in the format of the packed ZINC."""
    arrays = {
        "node_ptr": np.array([0, 2, 5], np.int32),
        "edge_ptr": np.array([0, 2, 6], np.int32),
        "edge_index": np.array([[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]], np.uint8),
        "x": np.array([0, 27, 1, 2, 3], np.uint8),
        "edge_attr": np.array([1, 1, 2, 2, 3, 3], np.uint8),
        "y": np.array([0.5, -1.0], np.float32),
        "split": np.array([0, 2], np.uint8),
    } | changes
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "zinc12k.npz", **arrays)
    return folder / "zinc12k.npz"


def test_a_path_is_a_file_or_its_folder_or_a_folder_of_folders(tmp_path: Path) -> None:
    file = write_zinc(tmp_path / "zinc12k")
    zinc, *others = (load_benchmark("zinc", path=path) for path in (file, file.parent, tmp_path))
    assert {benchmark.graphs.checksum() for benchmark in others} == {zinc.graphs.checksum()}
    assert (zinc.node_categories, zinc.edge_categories, zinc.num_targets) == ((28,), (4,), 1)
    assert zinc.note == "official validation and test molecules and labels, resampled training molecules"


def test_a_file_in_a_folder_of_a_known_name_precedes_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "hiv"
    folder.mkdir()
    names = TASKS["molhiv"].files
    assert find_source(folder, names) == folder
    (folder / "molhiv.npz").touch()
    assert find_source(folder, names) == folder / "molhiv.npz"


def test_packed_graphs_keep_their_directions(tmp_path: Path) -> None:
    graphs = load_benchmark("zinc", path=write_zinc(tmp_path)).graphs
    graphs.with_values(nodes={"node_potential": torch.ones(5, 1)}).save(tmp_path / "mine.safetensors")
    assert "node_potential" in load_benchmark("zinc", path=tmp_path / "mine.safetensors").graphs.nodes


def test_directions_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zinc = load_benchmark("zinc", path=write_zinc(tmp_path))
    graphs = with_directions(zinc, k=2, root=tmp_path).graphs
    assert graphs.nodes["node_potential"].shape == (5, 2)
    monkeypatch.setattr("dgn.data.precompute.chunks.directions_of_many", None)  # the second time they are read
    assert with_directions(zinc, k=2, root=tmp_path).graphs.checksum() == graphs.checksum()


def test_digits_are_grids_with_coordinates() -> None:
    digits = load_benchmark("digits")
    graphs = digits.graphs
    assert graphs.node_pointer.diff().unique().tolist() == [64]
    source, target = graphs.graph.edge_index
    step = graphs.nodes["node_potential"][source] - graphs.nodes["node_potential"][target]
    assert torch.equal(step, graphs.edges["edge_field"])
    assert step.abs().sum(dim=1).sub(2 / 7).abs().max() < 1e-6
    assert (graphs.nodes["node_potential"].min(), graphs.nodes["node_potential"].max()) == (-1, 1)
    assert (graphs.nodes["x"].min(), graphs.nodes["x"].max()) == (0, 1)
    assert digits.coordinates


def test_a_fraction_can_only_shrink() -> None:
    tenth = with_fraction(load_benchmark("digits"), 0.1)
    assert len(with_fraction(tenth, 0.05).graphs) < len(tenth.graphs)
    for fraction in (1.0, 0.0):
        with pytest.raises(ValueError, match=r"less than the 0\.1 of the training graphs.*; load digits again"):
            with_fraction(tenth, fraction)


def test_objectives_and_metrics_of_all_benchmarks_exist() -> None:
    for name, task in TASKS.items():
        assert make_objective(task.objective, task.metric).metric_name == task.metric, name


def test_missing_benchmarks_are_reported_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="did you mean 'zinc'"):
        load_benchmark("zink")
    with pytest.raises(FileNotFoundError, match="found nothing at"):
        load_benchmark("zinc", path=tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match=r"expected one of zinc\.safetensors, zinc12k\.npz in"):
        load_benchmark("zinc", path=tmp_path)

    def no_network(*_: str) -> None:
        raise URLError("no network")

    monkeypatch.setattr(downloads, "_datasets", lambda: {"zinc": no_network, "cifar10": no_network})
    with pytest.raises(FileNotFoundError, match="--data on the command line"):
        load_benchmark("zinc", root=tmp_path)


def test_corrupt_and_inconsistent_files_are_refused(tmp_path: Path) -> None:
    file = write_zinc(tmp_path)
    content = file.read_bytes()
    for corrupt in (content[:-50], content.replace(b"\x1b", b"\x1a")):
        file.write_bytes(corrupt)
        with pytest.raises(ValueError, match=r"zinc12k\.npz: expected a complete file"):
            load_benchmark("zinc", path=file)
    with pytest.raises(ValueError, match=r"expected x in columns of \[28\] categories, got values up to \[28\]"):
        load_benchmark("zinc", path=write_zinc(tmp_path, x=np.full(5, 28, np.uint8)))
    with pytest.raises(ValueError, match="expected tensors named y"):
        load_benchmark("zinc", path=write_zinc(tmp_path, y=np.zeros(1, np.float32)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_attr": np.zeros(1, np.uint8)}, "expected tensors named edge_attr"),
        ({"x": np.full(5, -1, np.int64)}, r"got values from -1 up to \[-1\]"),
        ({"x": np.full(5, 0.5, np.float32)}, r"expected integer categories as x, got torch\.float32"),
        ({"x": np.full(5, 300, np.uint16)}, r"got values up to \[300\]"),
    ],
)
def test_features_outside_the_categories_are_refused(
    tmp_path: Path, changes: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_benchmark("zinc", path=write_zinc(tmp_path, **changes))


def test_superpixels_without_features_are_refused(tmp_path: Path) -> None:
    graphs = PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)])
    graphs.with_values(graphs={"y": torch.zeros(1).long(), "split": torch.zeros(1)}).save(
        tmp_path / "cifar10.safetensors"
    )
    with pytest.raises(ValueError, match="expected tensors named x"):
        load_benchmark("cifar10", path=tmp_path)


def test_float_class_labels_are_refused(tmp_path: Path) -> None:
    graph = Data(x=torch.rand(2, 5), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.rand(1))
    packed = PackedGraphs.from_data([graph] * 3).with_values(graphs={"split": torch.arange(3)})
    packed.save(tmp_path / "cifar10.safetensors")
    with pytest.raises(ValueError, match=r"cifar10: expected integer class labels as y, got"):
        load_benchmark("cifar10", path=tmp_path)


def test_datasets_of_pyg_are_packed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    edge_index = torch.tensor([[0, 1], [1, 0]])
    molecule = Data(x=torch.tensor([[3], [4]]), edge_index=edge_index, edge_attr=torch.tensor([1, 1]), y=torch.ones(1))
    image = Data(
        x=torch.rand(2, 3), pos=torch.rand(2, 2), edge_index=edge_index, edge_attr=torch.rand(2), y=torch.tensor([7])
    )
    datasets = {"zinc": lambda *_: [molecule], "cifar10": lambda *_: [image]}
    monkeypatch.setattr(downloads, "_datasets", lambda: datasets)
    with pytest.raises(ValueError, match=r"expected \(10000, 1000, 1000\) graphs of zinc, got \(1, 1, 1\)"):
        load_benchmark("zinc", root=tmp_path)
    monkeypatch.setattr(downloads, "SIZES", {"zinc": (1, 1, 1), "cifar10": (1, 1, 1)})
    zinc, cifar10 = (load_benchmark(name, root=tmp_path).graphs for name in ("zinc", "cifar10"))
    assert (zinc.nodes["x"].tolist(), zinc.graphs["split"].tolist()) == ([3, 4] * 3, [0, 1, 2])
    assert torch.equal(cifar10.nodes["x"][:2], torch.cat([image.x, image.pos], dim=1))
    assert torch.equal(cifar10.nodes["node_potential"][:2], image.pos)
    assert (cifar10.edges["edge_attr"].shape, cifar10.graphs["y"].tolist()) == ((6, 1), [7, 7, 7])
    monkeypatch.setattr(downloads, "_datasets", None)
    assert load_benchmark("zinc", root=tmp_path).graphs.checksum() == zinc.checksum()  # cached


def test_a_corrupt_cached_file_is_replaced(tmp_path: Path) -> None:
    file, graphs = tmp_path / "one.safetensors", PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)])
    cached_graphs(file, "a", lambda: graphs)
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.warns(UserWarning, match="converted again"):
        cached_graphs(file, "a", lambda: graphs)
    assert PackedGraphs.load(file).checksum() == graphs.checksum()
    other = cached_graphs(file, "b", lambda: graphs.with_values(nodes={"x": torch.zeros(2)}))
    assert "x" in other.nodes


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "split"),
    [
        ("zinc", 277_396, 596_470, [10_000, 1_000, 1_000]),
        ("molhiv", 1_049_163, 2_259_376, [32_901, 4_113, 4_113]),
    ],
)
def test_the_packed_molecules_have_the_published_sizes(name: str, nodes: int, edges: int, split: list[int]) -> None:
    if not DATA.exists():
        pytest.skip(f"{DATA} is not at hand; it is not part of the repository")
    graphs = load_benchmark(name, path=DATA).graphs
    assert (graphs.num_nodes, graphs.num_edges) == (nodes, edges)
    assert graphs.graphs["split"].bincount().tolist() == split


def test_converted_graphs_that_cannot_be_cached_are_used(tmp_path: Path) -> None:
    (tmp_path / "one.safetensors").mkdir()
    graphs = PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)])
    with pytest.warns(UserWarning, match="converted again|one.safetensors") as warned:
        assert cached_graphs(tmp_path / "one.safetensors", "a", lambda: graphs).checksum() == graphs.checksum()
    assert "expected a cache that can be written" in str(warned[-1].message)


def test_sources_are_told_apart_by_content(tmp_path: Path) -> None:
    file = tmp_path / "data.csv"
    file.write_bytes(b"1")
    first, stat = describe_files([file]), file.stat()
    file.write_bytes(b"2")
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # same size, same time
    assert describe_files([file]) != first
    file.write_bytes(b"1")
    assert describe_files([file]) == first  # another time, same content
