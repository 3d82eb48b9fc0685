"""ZINC and CIFAR10 through PyG's own dataset classes, where there is a network."""

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
    """Let PyG fetch and read a benchmark, and pack it.

    Shapes:
        "zinc": ``x`` [N] and ``edge_attr`` [E] uint8, ``y`` [G] float32. "cifar10": ``x`` [N, 5] and ``edge_attr``
        [E, 1] float32, ``y`` [G] uint8. ``edge_index`` uint8.
    """
    folder = root / "pyg"
    try:
        parts = [_datasets()[name](str(folder), split) for split in SPLITS]
    except FAILED as problem:
        raise FileNotFoundError(
            f"{name}: expected to download it with PyG into {folder}, got {type(problem).__name__}: {problem}; run "
            f"this once where there is a network and copy {root / name}.safetensors, name a packed file "
            f"(path=, or --data on the command line), or remove {folder} if an earlier download was cut"
        ) from problem
    sizes = tuple(len(part) for part in parts)
    if sizes != SIZES[name]:
        raise ValueError(f"{folder}: expected {SIZES[name]} graphs of {name}, got {sizes}; remove it and try again")
    return pack_splits(name, parts)


def pack_splits(name: str, parts: list[Any]) -> PackedGraphs:
    """The training, validation and test sets of PyG one behind the other, in small types."""
    packed = PackedGraphs.from_data(data for part in parts for data in part)
    sizes = torch.tensor([len(part) for part in parts])
    split = torch.arange(3, dtype=torch.uint8).repeat_interleave(sizes)
    target, x, edge_attr = packed.graphs["y"].flatten(), packed.nodes["x"], packed.edges["edge_attr"]
    if name == "zinc":
        target, x, edge_attr = target.float(), x.flatten().to(torch.uint8), edge_attr.flatten().to(torch.uint8)
    else:
        # PyG keeps the centres apart; the benchmark's five features are colours and centre.
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
