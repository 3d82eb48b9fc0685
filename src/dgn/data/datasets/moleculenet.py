"""MoleculeNet's tables of SMILES with partly missing labels."""

import csv
import gzip
import zlib
from dataclasses import replace
from pathlib import Path

import torch

from dgn.data.datasets.paths import cached_graphs, describe_files
from dgn.data.datasets.smiles import pack_smiles
from dgn.data.packed import PackedGraphs
from dgn.data.splits import scaffold, scaffold_split

URL = "https://deepchemdata.s3-us-west-1.amazonaws.com/datasets/{}.csv.gz"
SMILES, MOLECULE_ID = "smiles", "mol_id"  # the columns without labels
LABELS = {"": -1, "0": 0, "1": 1, "0.0": 0, "1.0": 1}
NOTE = "MoleculeNet's molecules with OGB's features, our scaffold split"


def load_moleculenet(name: str, file: Path | None, root: Path, progress: bool = False) -> PackedGraphs:
    """ "muv" or "tox21" from MoleculeNet's table, parsed once and cached in ``root``."""
    cache = root / f"{name}.safetensors"
    file = file or root / f"{name}.csv.gz"
    if file.exists():
        return cached_graphs(
            cache, f"MoleculeNet 1 of {describe_files([file])}", lambda: read_moleculenet(file, progress)
        )
    if cache.exists():
        return PackedGraphs.load(cache)
    raise FileNotFoundError(
        f"{name}: expected the table {file}, found nothing; download {URL.format(name)}, or name another "
        "file (path=, or --data on the command line)"
    )


def read_moleculenet(file: Path, progress: bool = False) -> PackedGraphs:
    """Molecules of a CSV table with OGB's features, one label column per task and an 80/10/10 scaffold split.

    Needs RDKit, the extra ``molecules``. Labels are 0, 1 or empty.

    Shapes:
        ``nodes["x"]`` [N, 9] and ``edges["edge_attr"]`` [E, 3] uint8, ``graphs["y"]`` [G, T] int8 with -1 for missing
        labels, ``graphs["split"]`` [G] uint8.
    """
    tasks, rows = _read(file)
    smiles = [row[SMILES] for row in rows]
    graphs = pack_smiles(smiles, progress)
    if int(graphs.node_pointer.diff().max()) <= 256:
        graphs = replace(graphs, edge_index=graphs.edge_index.to(torch.uint8))
    y = torch.tensor([[_label(row[task], task, file) for task in tasks] for row in rows], dtype=torch.int8)
    split = scaffold_split([scaffold(molecule) for molecule in smiles])
    return replace(graphs.with_values(graphs={"y": y, "split": split}), info={"note": NOTE})


def _read(file: Path) -> tuple[list[str], list[dict[str, str]]]:
    try:
        data = file.read_bytes()
        text = (gzip.decompress(data) if file.suffix == ".gz" else data).decode()
    except (EOFError, OSError, ValueError, zlib.error) as error:
        raise ValueError(f"{file}: expected a complete table, got {error}; download it again") from error
    table = csv.DictReader(text.splitlines())
    rows, names = list(table), table.fieldnames or ()
    tasks = [name for name in names if name not in (SMILES, MOLECULE_ID)]
    if SMILES not in names or not tasks or not rows:
        raise ValueError(f"{file}: expected label columns and one named {SMILES}, got {', '.join(names)}")
    return tasks, rows


def _label(text: str | None, task: str, file: Path) -> int:
    if text not in LABELS:
        raise ValueError(f"{file}: expected 0, 1 or an empty field in column {task}, got {text!r}; download it again")
    return LABELS[text]
