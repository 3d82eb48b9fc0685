"""MolPCBA from SMILES in OGB's order, checked against the sizes of OGB's graphs, with OGB's scaffold split."""

import gzip
import os
import zlib
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from dgn.data.datasets.paths import cached_graphs, describe_files
from dgn.data.datasets.smiles import pack_smiles
from dgn.data.io.npz import load_npz
from dgn.data.packed import PackedGraphs, row_pointer
from dgn.data.precompute.progress import progress_bar
from dgn.data.prefetch import prefetch

SMILES, LABELS = "molpcba_smiles.txt.gz", "molpcba_labels.npz"
NOTE = "SMILES in OGB's order with OGB's features rebuilt, labels from the same table, official split"
TASKS = 128
ARRAYS = {"known": TASKS // 8, "positive": TASKS // 8, "split": 0, "num_nodes": 0, "num_bonds": 0}  # columns; 0: flat
CHUNK = 5000  # molecules per task of a worker process
Array = NDArray[Any]


class Features(NamedTuple):
    """Graphs of a chunk as arrays, which are cheap to pickle."""

    nodes: Array
    edges: Array
    edge_index: Array
    x: Array
    edge_attr: Array


def load_molpcba(file: Path, root: Path, progress: bool = False) -> PackedGraphs:
    """MolPCBA from the folder of ``file``, parsed once and cached in ``root``."""
    files = [file.with_name(name) for name in (SMILES, LABELS)]
    missing = [path.name for path in files if not path.exists()]
    if missing:
        raise FileNotFoundError(
            f"molpcba: expected {SMILES} and {LABELS} in {file.parent}, found no {missing[0]}; copy it there"
        )
    source = f"MolPCBA SMILES 1 of {describe_files(files)}"
    return cached_graphs(root / "molpcba.safetensors", source, lambda: read_molpcba(file.parent, progress))


def read_molpcba(folder: Path, progress: bool = False, workers: int | None = None) -> PackedGraphs:
    """MolPCBA with OGB's features, order and split and 128 labels per molecule; needs RDKit.

    ``workers`` processes parse the SMILES, by default one per core: call this under ``if __name__ == "__main__":``.
    Files in which a molecule differs from OGB's graph in the number of atoms or bonds are refused.

    Shapes:
        ``nodes["x"]`` [N, 9] and ``edges["edge_attr"]`` [E, 3] uint8, ``graphs["y"]`` [G, 128] int8 with -1 for missing
        labels, ``graphs["split"]`` [G] uint8.
    """
    smiles, labels = read_lines(folder / SMILES), read_labels(folder / LABELS)
    if len(smiles) != len(labels["split"]):
        raise ValueError(
            f"{folder / SMILES}: expected {len(labels['split'])} lines by {LABELS}, got {len(smiles)}; one of the two "
            "is truncated, copy both again"
        )
    try:
        graphs = featurize(smiles, progress, workers or len(os.sched_getaffinity(0)))
    except ValueError as error:
        raise ValueError(f"{folder / SMILES}: {error}") from error
    _check_sizes(folder, graphs, labels)
    labelled, positive = (np.unpackbits(labels[name], axis=1).astype(np.int8) for name in ("known", "positive"))
    y, split = np.where(labelled, positive, np.int8(-1)), labels["split"].astype(np.uint8)
    return graphs.with_values(graphs={"y": torch.from_numpy(y), "split": torch.from_numpy(split)})


def featurize(smiles: Sequence[str], progress: bool = False, workers: int = 1) -> PackedGraphs:
    """:func:`dgn.data.datasets.smiles.pack_smiles` in several processes, with ``edge_index`` in int16."""
    chunks = [smiles[begin : begin + CHUNK] for begin in range(0, len(smiles), CHUNK)]
    workers = min(workers, len(chunks))
    features = []
    with progress_bar("reading SMILES", len(smiles), "molecules", progress) as advance:
        try:
            for chunk in prefetch(_features, chunks, workers) if workers > 1 else map(_features, chunks):
                features.append(chunk)
                advance(len(chunk.nodes))
        except BrokenProcessPool as error:
            raise RuntimeError(
                f"processes: expected {workers} that parse SMILES, got {error}; call this under "
                'if __name__ == "__main__":, or use a machine with more memory'
            ) from error
    nodes, edges, edge_index, x, edge_attr = (
        torch.from_numpy(np.concatenate(columns, axis=-1 if name == "edge_index" else 0))
        for name, columns in zip(Features._fields, zip(*features, strict=True), strict=True)
    )
    return PackedGraphs(
        row_pointer(nodes), row_pointer(edges), edge_index, {"x": x}, {"edge_attr": edge_attr}, info={"note": NOTE}
    )  # fmt: skip


def _features(smiles: Sequence[str]) -> Features:
    graphs = pack_smiles(smiles)
    nodes, edges = (pointer.diff().numpy() for pointer in (graphs.node_pointer, graphs.edge_pointer))
    # OGB's largest molecule has 332 atoms.
    return Features(
        nodes, edges, graphs.edge_index.short().numpy(), graphs.nodes["x"].numpy(), graphs.edges["edge_attr"].numpy()
    )  # fmt: skip


def read_lines(file: Path) -> list[str]:
    """The lines of a gzipped text; a truncated file is refused."""
    try:
        text = gzip.decompress(file.read_bytes()).decode("ascii")
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise ValueError(f"{file}: expected a complete gzip file, got {error}; copy it again") from error
    return text.splitlines()


def read_labels(file: Path) -> dict[str, Array]:
    """The arrays of labels, split and graph sizes, with one row per molecule."""
    arrays = load_npz(file)
    missing = [name for name in ARRAYS if name not in arrays]
    if missing:
        raise ValueError(f"{file}: expected arrays {', '.join(ARRAYS)}, got none named {', '.join(missing)}")
    labels = {name: arrays[name] for name in ARRAYS}
    rows = len(labels["split"])
    for name, columns in ARRAYS.items():
        expected = (rows, columns) if columns else (rows,)
        if labels[name].shape != expected:
            raise ValueError(
                f"{file}: expected {name} of shape {list(expected)}, got {list(labels[name].shape)}; copy it again"
            )
    if labels["split"].max(initial=0) > 2:
        raise ValueError(f"{file}: expected 0, 1 or 2 as split, got {labels['split'].max()}; copy it again")
    return labels


def _check_sizes(folder: Path, graphs: PackedGraphs, labels: dict[str, Array]) -> None:
    """Refuse molecules that differ in size from OGB's graph in the same row."""
    sizes = np.stack([graphs.node_pointer.diff().numpy(), graphs.edge_pointer.diff().numpy() // 2], axis=1)
    expected = np.stack([labels["num_nodes"], labels["num_bonds"]], axis=1).astype(np.int64)
    wrong = (sizes != expected).any(axis=1).nonzero()[0]
    if len(wrong):
        row = wrong[0]
        raise ValueError(
            f"{folder / SMILES}: expected {expected[row, 0]} atoms and {expected[row, 1]} bonds in row {row} by "
            f"{LABELS}, got {sizes[row, 0]} and {sizes[row, 1]} ({len(wrong)} rows differ); the files do not belong "
            "together, copy both again"
        )
