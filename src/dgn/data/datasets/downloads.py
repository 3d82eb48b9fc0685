"""ZINC and CIFAR10, downloaded with PyG's dataset classes."""

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from dgn.data.packed import PackedGraphs

SOURCES = {"zinc": "PyG ZINC, subset", "cifar10": "PyG GNNBenchmarkDataset CIFAR10"}
SIZES = {"zinc": (10_000, 1_000, 1_000), "cifar10": (45_000, 5_000, 10_000)}
SPLITS = ("train", "val", "test")
FAILED = (OSError, RuntimeError, EOFError, zipfile.BadZipFile, pickle.UnpicklingError)


def download(name: str, root: Path) -> PackedGraphs:
    """A benchmark downloaded and read by PyG, as packed graphs.

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
    from torch_geometric.datasets import ZINC, GNNBenchmarkDataset

    return {
        "zinc": lambda folder, split: ZINC(f"{folder}/ZINC", subset=True, split=split),
        "cifar10": lambda folder, split: GNNBenchmarkDataset(folder, name="CIFAR10", split=split),
    }
