"""Files that PyG downloaded are read without executing code."""

import pickle
from pathlib import Path

import pytest
import torch

from dgn.data.datasets import downloads

EDGES = torch.tensor([[0, 1], [1, 0]])


class Trap:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.touch, (self.path,))


def write_zinc(folder: Path) -> Path:
    """Two molecules per split, one of them in the subset, as PyG downloads them."""
    raw = folder / "pyg" / "ZINC" / "raw"
    raw.mkdir(parents=True)
    bonds = torch.tensor([[0, 2], [2, 0]], dtype=torch.int8)
    molecule = {"num_atom": 2, "atom_type": torch.tensor([3, 4]), "bond_type": bonds}
    molecule["logP_SA_cycle_normalized"] = torch.tensor([0.5])
    for split in downloads.SPLITS:
        (raw / f"{split}.pickle").write_bytes(pickle.dumps([{}, molecule]))
        (raw / f"{split}.index").write_text("1\n")
    return raw


def write_cifar10(folder: Path) -> Path:
    raw = folder / "pyg" / "CIFAR10" / "raw"
    raw.mkdir(parents=True)
    image = {"x": torch.rand(2, 3), "pos": torch.rand(2, 2), "edge_index": EDGES, "edge_attr": torch.rand(2)}
    image["y"] = torch.tensor([7])
    torch.save([[image]] * 3, raw / "CIFAR10_v2.pt")
    return raw


@pytest.fixture(autouse=True)
def small_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloads, "SIZES", {"zinc": (1, 1, 1), "cifar10": (1, 1, 1)})


def test_downloaded_files_are_read(tmp_path: Path) -> None:
    write_zinc(tmp_path), write_cifar10(tmp_path)
    zinc, cifar10 = downloads.download("zinc", tmp_path), downloads.download("cifar10", tmp_path)
    assert (zinc.nodes["x"].tolist(), zinc.edges["edge_attr"].tolist()) == ([3, 4] * 3, [2] * 6)
    assert (zinc.graphs["y"].tolist(), zinc.graphs["split"].tolist()) == ([0.5] * 3, [0, 1, 2])
    assert (cifar10.nodes["x"].shape, cifar10.graphs["y"].tolist()) == ((6, 5), [7, 7, 7])


@pytest.mark.parametrize("file", ["ZINC/raw/val.pickle", "CIFAR10/raw/CIFAR10_v2.pt"])
def test_code_in_a_downloaded_file_is_refused(file: str, tmp_path: Path) -> None:
    write_zinc(tmp_path), write_cifar10(tmp_path)
    path, trap = tmp_path / "pyg" / file, Trap(tmp_path / "executed")
    path.write_bytes(pickle.dumps([trap])) if path.suffix == ".pickle" else torch.save([trap], path)
    with pytest.raises(ValueError, match=rf"{path.name}: expected .* could execute code"):
        downloads.download("zinc" if "ZINC" in file else "cifar10", tmp_path)
    assert not (tmp_path / "executed").exists()


@pytest.mark.parametrize("name", ["train.pt", "pre_transform.pt"])
def test_code_in_a_processed_file_is_not_run(name: str, tmp_path: Path) -> None:
    write_zinc(tmp_path)
    processed = tmp_path / "pyg" / "ZINC" / "subset" / "processed"
    processed.mkdir(parents=True)
    for other in ("train.pt", "val.pt", "test.pt", name):
        torch.save([Trap(tmp_path / "executed")] if other == name else "None", processed / other)
    downloads.download("zinc", tmp_path)
    assert not (tmp_path / "executed").exists()
