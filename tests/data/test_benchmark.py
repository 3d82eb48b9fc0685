"""Benchmarks by name, from wherever they are, and clear words where they are not."""

from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest
import torch
from torch_geometric.data import Data

from dgn.data.benchmark import TASKS, load_benchmark, with_directions, with_fraction
from dgn.data.datasets import downloads
from dgn.data.datasets.paths import cached_graphs, find_source
from dgn.data.packed import PackedGraphs
from dgn.training.objectives import make_objective

DATA = Path(__file__).parents[3] / "shared" / "data"


def write_zinc(folder: Path, **changes: np.ndarray) -> Path:
    """Two molecules in the form of the packed ZINC."""
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
    found = [load_benchmark("zinc", path=path) for path in (file, file.parent, tmp_path)]
    assert len({benchmark.graphs.checksum() for benchmark in found}) == 1
    assert (found[0].node_categories, found[0].edge_categories, found[0].num_targets) == ((28,), (4,), 1)
    assert found[0].note == "official validation and test molecules and labels, resampled training molecules"


def test_a_folder_with_a_name_of_its_own_may_hold_the_file(tmp_path: Path) -> None:
    folder = tmp_path / "hiv"
    folder.mkdir()
    names = TASKS["molhiv"].files
    assert find_source(folder, names) == folder
    (folder / "molhiv.npz").touch()
    assert find_source(folder, names) == folder / "molhiv.npz"


def test_packed_graphs_are_taken_with_their_directions(tmp_path: Path) -> None:
    graphs = load_benchmark("zinc", path=write_zinc(tmp_path)).graphs
    graphs.with_values(nodes={"potential": torch.ones(5, 1)}).save(tmp_path / "mine.safetensors")
    assert "potential" in load_benchmark("zinc", path=tmp_path / "mine.safetensors").graphs.nodes


def test_directions_are_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zinc = load_benchmark("zinc", path=write_zinc(tmp_path))
    found = with_directions(zinc, k=2, root=tmp_path).graphs
    assert found.nodes["potential"].shape == (5, 2)
    monkeypatch.setattr("dgn.data.precompute.chunks.directions_of_many", None)  # the second time they are read
    assert with_directions(zinc, k=2, root=tmp_path).graphs.checksum() == found.checksum()


def test_digits_are_grids_with_coordinates() -> None:
    digits = load_benchmark("digits")
    graphs = digits.graphs
    assert graphs.node_pointer.diff().unique().tolist() == [64]
    source, target = graphs.graph.edge_index
    step = graphs.nodes["potential"][source] - graphs.nodes["potential"][target]
    assert torch.equal(step, graphs.edges["field"])
    assert (step.abs().sum(dim=1) == 1).all()
    assert (graphs.nodes["x"].min(), graphs.nodes["x"].max()) == (0, 1)
    assert digits.coordinates


def test_a_part_does_not_grow_again() -> None:
    part = with_fraction(load_benchmark("digits"), 0.1)
    assert len(with_fraction(part, 0.05).graphs) < len(part.graphs)
    for fraction in (1.0, 0.0):
        with pytest.raises(ValueError, match=r"part above 0 of the 0\.1 of the training graphs.*; load digits anew"):
            with_fraction(part, fraction)


@pytest.mark.parametrize("name", TASKS)
def test_objectives_and_metrics_exist(name: str) -> None:
    assert make_objective(TASKS[name].objective, TASKS[name].metric).metric_name == TASKS[name].metric


def test_what_is_not_there_is_said_with_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_damaged_and_unfitting_files_are_refused(tmp_path: Path) -> None:
    file = write_zinc(tmp_path)
    whole = file.read_bytes()
    for damaged in (whole[:-50], whole.replace(b"\x1b", b"\x1a")):
        file.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"zinc12k\.npz: expected a complete file"):
            load_benchmark("zinc", path=file)
    with pytest.raises(ValueError, match=r"expected x in columns of \[28\] categories, got values up to \[28\]"):
        load_benchmark("zinc", path=write_zinc(tmp_path, x=np.full(5, 28, np.uint8)))
    with pytest.raises(ValueError, match="expected values called y"):
        load_benchmark("zinc", path=write_zinc(tmp_path, y=np.zeros(1, np.float32)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_attr": np.zeros(1, np.uint8)}, "expected values called edge_attr"),
        ({"x": np.full(5, -1, np.int64)}, r"got values from -1 up to \[-1\]"),
        ({"x": np.full(5, 0.5, np.float32)}, r"expected whole numbers as x, the categories, got torch\.float32"),
        ({"x": np.full(5, 300, np.uint16)}, r"got values up to \[300\]"),
    ],
)
def test_features_that_are_no_categories_are_refused(
    tmp_path: Path, changes: dict[str, np.ndarray], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        load_benchmark("zinc", path=write_zinc(tmp_path, **changes))


def test_superpixels_without_features_are_named(tmp_path: Path) -> None:
    graphs = PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)])
    graphs.with_values(graphs={"y": torch.zeros(1).long(), "split": torch.zeros(1)}).save(
        tmp_path / "cifar10.safetensors"
    )
    with pytest.raises(ValueError, match="expected values called x"):
        load_benchmark("cifar10", path=tmp_path)


def test_numbers_are_no_classes(tmp_path: Path) -> None:
    graph = Data(x=torch.rand(2, 5), edge_index=torch.tensor([[0, 1], [1, 0]]), y=torch.rand(1))
    packed = PackedGraphs.from_data([graph] * 3).with_values(graphs={"split": torch.arange(3)})
    packed.save(tmp_path / "cifar10.safetensors")
    with pytest.raises(ValueError, match=r"cifar10: expected whole numbers as y, one for each class, got"):
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
    assert torch.equal(cifar10.nodes["potential"][:2], image.pos)
    assert (cifar10.edges["edge_attr"].shape, cifar10.graphs["y"].tolist()) == ((6, 1), [7, 7, 7])
    monkeypatch.setattr(downloads, "_datasets", None)
    assert load_benchmark("zinc", root=tmp_path).graphs.checksum() == zinc.checksum()  # kept


def test_a_damaged_copy_is_made_again(tmp_path: Path) -> None:
    file, graphs = tmp_path / "one.safetensors", PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)])
    cached_graphs(file, "a", lambda: graphs)
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.warns(UserWarning, match="made again"):
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
