"""Edges of superpixels against the definition, node by node."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dgn.data.benchmark import load_benchmark
from dgn.data.datasets import cifar10

NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU])]
FILE = Path(__file__).parents[4] / "shared" / "data" / "cifar10_superpixels" / "cifar10_sp.npz"


def expected_neighbours(centre: np.ndarray) -> list[dict[int, float]]:
    """The eight neighbours of each superpixel, with their weights."""
    n = len(centre)
    distance = np.array([[np.hypot(*(centre[i] - centre[j])) for j in range(n)] for i in range(n)])
    scale = np.sort(distance, axis=1)[:, :9].sum(axis=1) / 8 + 1e-8
    weight = np.exp(-((distance / scale[:, None]) ** 2))
    weight = (weight + weight.T) / 2
    np.fill_diagonal(weight, 0)
    return [{int(j): weight[i, j] for j in np.argsort(-weight[i])[:8]} for i in range(n)]


def write_sums(path: Path, sizes: list[int]) -> np.ndarray:
    """A file of random superpixels; returns the exact features."""
    random = np.random.default_rng(0)
    total = sum(sizes)
    count = random.integers(1, 20, total)
    colour = random.integers(0, 256 * count[:, None], (total, 3))
    centre = random.integers(0, 32 * count[:, None], (total, 2))
    arrays = {"node_ptr": np.cumsum([0, *sizes]), "count": count.astype(np.uint8)}
    for name, sums in (("rgb_sum", colour), ("rc_sum", centre)):
        arrays |= {f"{name}_lo": (sums % 256).astype(np.uint8), f"{name}_hi": (sums // 256).astype(np.uint8)}
    split = np.arange(len(sizes), dtype=np.uint8) % 3
    np.savez(path, **arrays, y=split, split=split)
    return np.concatenate([colour / count[:, None] / 255, centre / count[:, None] / 32], axis=1)


@pytest.mark.parametrize("device", DEVICES)
def test_features_and_edges_follow_the_definition(tmp_path: Path, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [12, 9, 15, 12, 12]
    x = write_sums(tmp_path / "cifar10_sp.npz", sizes)
    monkeypatch.setitem(cifar10.MAX_DISTANCES, device, 2 * 12**2)  # two images at once: several chunks
    graphs = cifar10.load_superpixels(tmp_path / "cifar10_sp.npz", device)
    torch.testing.assert_close(graphs.nodes["x"], torch.from_numpy(x).float())
    assert (graphs.edge_index.dtype, graphs.num_edges) == (torch.uint8, 8 * 60)
    for g, (start, end) in enumerate(zip(graphs.node_pointer, graphs.node_pointer[1:], strict=False)):
        image = graphs[g]
        expected = expected_neighbours(x[start:end, 3:])
        neighbours: list[dict[int, float]] = [{} for _ in expected]
        for i, j, weight in zip(*image.edge_index.tolist(), image.edge_attr[:, 0].tolist(), strict=True):
            neighbours[i][j] = weight
        for actual, wanted in zip(neighbours, expected, strict=True):
            assert actual == pytest.approx(wanted, rel=1e-4)


def test_the_field_is_the_difference_of_centres_and_edges_are_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_sums(tmp_path / "cifar10_sp.npz", [10, 11])
    loaded = load_benchmark("cifar10", path=tmp_path, root=tmp_path / "root", device="cpu")
    graphs, edge_index = loaded.graphs, loaded.graphs.graph.edge_index
    centre = graphs.nodes["x"][:, 3:]
    assert torch.equal(graphs.nodes["node_potential"], centre)
    assert torch.equal(graphs.edges["edge_field"], centre[edge_index[0]] - centre[edge_index[1]])
    assert (loaded.coordinates, loaded.note) == (True, "superpixels recomputed from the images")
    monkeypatch.setattr(cifar10, "load_superpixels", None)  # a second call reads what the first wrote
    again = load_benchmark("cifar10", path=tmp_path, root=tmp_path / "root")
    assert again.graphs.checksum() == graphs.checksum()


def test_images_too_small_and_files_without_sums_are_refused(tmp_path: Path) -> None:
    write_sums(tmp_path / "small.npz", [12, 8])
    with pytest.raises(ValueError, match="expected 9 to 256 in each image, got 8 to 12"):
        cifar10.load_superpixels(tmp_path / "small.npz")
    np.savez(tmp_path / "other.npz", count=np.ones(3))
    with pytest.raises(ValueError, match="got none named node_ptr, rgb_sum_lo"):
        cifar10.load_superpixels(tmp_path / "other.npz")


def test_a_truncated_file_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "cifar10_sp.npz"
    write_sums(file, [10, 11])
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"cifar10_sp\.npz: expected a complete file"):
        cifar10.load_superpixels(file)


def test_real_images_have_the_published_size_and_values_in_range(tmp_path: Path) -> None:
    if not FILE.exists():
        pytest.skip(f"{FILE} is not at hand; it is not part of the repository")
    with np.load(FILE) as arrays:
        pointer = arrays["node_ptr"]
        assert (len(pointer), pointer[-1]) == (60_001, 7_058_005)
        assert np.bincount(arrays["split"]).tolist() == [45_000, 5_000, 10_000]
        images, nodes = 200, pointer[200]
        rows = {"node_ptr": images + 1, "y": images, "split": images}
        np.savez(tmp_path / "few.npz", **{name: arrays[name][: rows.get(name, nodes)] for name in cifar10.SUMS})
    graphs = load_benchmark("cifar10", path=tmp_path / "few.npz", root=tmp_path, device="cpu").graphs
    x, weight = graphs.nodes["x"], graphs.edges["edge_attr"]
    assert x.min() >= 0
    assert x.max() <= 1
    assert 0 < weight.min() < weight.max() < 1
