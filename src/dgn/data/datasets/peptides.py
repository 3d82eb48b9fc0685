"""Peptides-func of the Long Range Graph Benchmark, from its official files."""

import csv
import gzip
import hashlib
import json
from dataclasses import replace
from pathlib import Path

import torch

from dgn.data.datasets.paths import cached_graphs, describe_files
from dgn.data.datasets.smiles import pack_smiles
from dgn.data.io.pickled import read_pickle
from dgn.data.packed import PackedGraphs

TABLE, SPLITS = "peptide_multi_class_dataset.csv.gz", "splits_random_stratified_peptide.pickle"
TASKS = 10
MD5 = {TABLE: "701eb743e899f4d793f0e13c8fa5a1b4", SPLITS: "5a0114bdadc80b94fc7ae974f13ef061"}  # stated by LRGB's loader
SOURCE = "https://github.com/vijaydwivedi75/lrgb"


def load_peptides(file: Path | None, root: Path, progress: bool = False) -> PackedGraphs:
    """Peptides-func from the folder of ``file`` (``root/peptides-func``), parsed once and cached in ``root``."""
    folder, cache = (root / "peptides-func" if file is None else file.parent), root / "peptides-func.safetensors"
    files = [folder / TABLE, folder / SPLITS]
    missing = [path.name for path in files if not path.exists()]
    if missing and file is None and cache.exists():
        return PackedGraphs.load(cache)
    if missing:
        raise FileNotFoundError(
            f"peptides-func: expected {TABLE} and {SPLITS} in {folder}, found no {missing[0]}; {SOURCE} says where to "
            "download them"
        )
    return cached_graphs(cache, f"Peptides 1 of {describe_files(files)}", lambda: read_peptides(folder, progress))


def read_peptides(folder: Path, progress: bool = False, official: bool = True) -> PackedGraphs:
    """The peptides with OGB's features, ten labels each, and the official split; needs RDKit.

    Files other than the ``official`` ones are refused.

    Shapes:
        ``nodes["x"]`` [N, 9] and ``edges["edge_attr"]`` [E, 3] uint8, ``graphs["y"]`` [G, 10] int8, ``graphs["split"]``
        [G] uint8.
    """
    for name, expected in MD5.items() if official else ():
        digest = hashlib.md5((folder / name).read_bytes(), usedforsecurity=False).hexdigest()
        if digest != expected:
            raise ValueError(
                f"{folder / name}: expected LRGB's file of MD5 {expected}, got {digest}; download it again ({SOURCE})"
            )
    rows = list(csv.DictReader(gzip.decompress((folder / TABLE).read_bytes()).decode().splitlines()))
    graphs = pack_smiles([row["smiles"] for row in rows], progress)
    y = torch.tensor([json.loads(row["labels"]) for row in rows], dtype=torch.int8)
    split = torch.full((len(rows),), 3, dtype=torch.uint8)
    for number, index in enumerate(read_pickle(folder / SPLITS).values()):
        split[torch.as_tensor(index, dtype=torch.long)] = number
    return replace(graphs.with_values(graphs={"y": y, "split": split}), edge_index=graphs.edge_index.short())
