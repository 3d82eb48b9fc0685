"""ZINC and CIFAR10, downloaded by PyG's dataset classes and read without executing code."""

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from dgn.data.io.pickled import read_pickle, read_pt
from dgn.data.packed import PackedGraphs

SOURCES = {"zinc": "PyG ZINC, subset", "cifar10": "PyG GNNBenchmarkDataset CIFAR10"}
SIZES = {"zinc": (10_000, 1_000, 1_000), "cifar10": (45_000, 5_000, 10_000)}
SPLITS = ("train", "val", "test")
FAILED = (OSError, RuntimeError, EOFError, zipfile.BadZipFile)


def download(name: str, root: Path) -> PackedGraphs:
    """A benchmark downloaded by PyG, as packed graphs.

    Shapes:
        "zinc": ``x`` [N] and ``edge_attr`` [E] uint8, ``y`` [G] float32. "cifar10": ``x`` [N, 5] and ``edge_attr``
        [E, 1] float32, ``y`` [G] uint8. ``edge_index`` uint8.
    """
    folder = root / "pyg"
    try:
        datasets = [_datasets()[name](str(folder), split) for split in SPLITS]
    except FAILED as error:
        raise FileNotFoundError(
            f"{name}: expected to download it with PyG into {folder}, got {type(error).__name__}: {error}; run "
            f"this once with internet access and copy {root / name}.safetensors, name a packed file "
            f"(path=, or --data on the command line), or remove {folder} if an earlier download was interrupted"
        ) from error
    sizes = tuple(len(dataset) for dataset in datasets)
    if sizes != SIZES[name]:
        raise ValueError(f"{folder}: expected {SIZES[name]} graphs of {name}, got {sizes}; remove it and try again")
    return pack_splits(name, datasets)


def pack_splits(name: str, datasets: list[Any]) -> PackedGraphs:
    """PyG's training, validation and test datasets concatenated, with small dtypes."""
    packed = PackedGraphs.from_data(data for dataset in datasets for data in dataset)
    sizes = torch.tensor([len(dataset) for dataset in datasets])
    split = torch.arange(3, dtype=torch.uint8).repeat_interleave(sizes)
    target, x, edge_attr = packed.graphs["y"].flatten(), packed.nodes["x"], packed.edges["edge_attr"]
    if name == "zinc":
        target, x, edge_attr = target.float(), x.flatten().to(torch.uint8), edge_attr.flatten().to(torch.uint8)
    else:
        # PyG stores the centre in pos; the benchmark's five features are colour and centre.
        x = torch.cat([x, packed.nodes["pos"]], dim=1) if x.size(1) == 3 else x
        target, x, edge_attr = target.to(torch.uint8), x.float(), edge_attr.reshape(-1, 1).float()
    return PackedGraphs(
        packed.node_pointer,
        packed.edge_pointer,
        packed.edge_index.to(torch.uint8),
        nodes={"x": x},
        edges={"edge_attr": edge_attr},
        graphs={"y": target, "split": split},
    )


def _datasets() -> dict[str, Callable[[str, str], Any]]:
    """PyG's classes, of which only the download is used: reading what they cache could execute code."""
    from torch_geometric.data import Data
    from torch_geometric.datasets import ZINC, GNNBenchmarkDataset

    class Molecules(ZINC):  # type: ignore[misc]
        def _process(self) -> None:
            pass

        def load(self, path: str) -> None:
            split = Path(self.raw_dir, Path(path).name)
            molecules = read_pickle(split.with_suffix(".pickle"))
            subset = split.with_suffix(".index").read_text().strip().split(",")
            self.data, self.slices = self.collate([_molecule(molecules[int(index)]) for index in subset])

    class Images(GNNBenchmarkDataset):  # type: ignore[misc]
        def _process(self) -> None:
            pass

        def load(self, path: str) -> None:
            images = read_pt(Path(self.raw_paths[0]))[self.processed_paths.index(path)]
            self.data, self.slices = self.collate([Data(**image) for image in images])

    return {
        "zinc": lambda folder, split: Molecules(f"{folder}/ZINC", subset=True, split=split),
        "cifar10": lambda folder, split: Images(folder, name="CIFAR10", split=split),
    }


def _molecule(molecule: Mapping[str, Any]) -> Any:
    """A molecule of the published pickle, with a matrix of bond types."""
    from torch_geometric.data import Data

    bonds = molecule["bond_type"]
    source, target = edge_index = bonds.nonzero().T
    return Data(
        x=molecule["atom_type"].reshape(-1, 1),
        edge_index=edge_index,
        edge_attr=bonds[source, target],
        y=molecule["logP_SA_cycle_normalized"].float(),
    )
