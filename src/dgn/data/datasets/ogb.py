"""MolHIV and MolPCBA from OGB's raw files."""

import gzip
import warnings
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dgn.data.datasets.paths import cached_graphs, describe_files
from dgn.data.packed import PackedGraphs

COLUMNS = {  # of the files in raw/; None: one column per task
    "num-node-list": 1,
    "num-edge-list": 1,
    "edge": 2,
    "node-feat": 9,
    "edge-feat": 3,
    "graph-label": None,
}
SPLITS = ("train", "valid", "test")
URLS = {
    "molhiv": "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/hiv.zip",
    "molpcba": "http://snap.stanford.edu/ogb/data/graphproppred/csv_mol_download/pcba.zip",
}
Table = NDArray[Any]


def load_ogb(name: str, folder: Path | None, root: Path) -> PackedGraphs:
    """ "molhiv" or "molpcba" from a folder in OGB's layout, read once and cached in ``root``."""
    cache = root / f"{name}.safetensors"
    is_default, folder = folder is None, folder or root / f"ogbg_{name}"
    files = raw_files(folder)
    missing = [file for file in files if not file.exists()]
    if missing and cache.exists() and is_default:  # an explicit folder may not be the one that was cached
        return PackedGraphs.load(cache)
    if missing:
        raise FileNotFoundError(
            f"{name}: expected OGB's raw files in {folder}, found no {', '.join(file.name for file in missing)}; "
            f"unpack {URLS[name]} there (so that {folder}/raw exists), or name another folder (path=, or --data on "
            "the command line)"
        )
    return cached_graphs(cache, f"OGB raw 1 of {describe_files(files)}", lambda: read_ogb(folder))


def raw_files(folder: Path) -> list[Path]:
    """All required files, existing or not."""
    raw = [folder / "raw" / f"{name}.csv.gz" for name in COLUMNS]
    return raw + [folder / "split" / "scaffold" / f"{name}.csv.gz" for name in SPLITS]


def read_ogb(folder: Path) -> PackedGraphs:
    """Packed graphs from the raw files of an OGB molecule dataset; each bond is two edges, i -> j then j -> i.

    A file that is truncated, corrupt or inconsistent with the others is refused by name.

    Shapes:
        ``nodes["x"]`` [N, 9] and ``edges["edge_attr"]`` [E, 3] uint8, ``graphs["y"]`` [G, T] float32 with NaN for
        missing labels, ``graphs["split"]`` [G] uint8.
    """
    tables = {name: read_table(folder / "raw" / f"{name}.csv.gz", width) for name, width in COLUMNS.items()}
    nodes, bonds = (tables[f"num-{level}-list"][:, 0].astype(np.int64) for level in ("node", "edge"))
    _check_rows(folder, "edge", tables, int(bonds.sum()), "num-edge-list")
    _check_rows(folder, "edge-feat", tables, int(bonds.sum()), "num-edge-list")
    _check_rows(folder, "node-feat", tables, int(nodes.sum()), "num-node-list")
    _check_rows(folder, "num-edge-list", tables, len(nodes), "num-node-list")
    _check_rows(folder, "graph-label", tables, len(nodes), "num-node-list")
    for name in ("node-feat", "edge-feat"):
        if tables[name].max(initial=0) > 255:
            raise ValueError(
                f"{folder}/raw/{name}.csv.gz: expected categories up to 255, got {tables[name].max()}; it is corrupt, "
                "download it again"
            )
    edge = tables["edge"].astype(np.int64)
    if edge.size and not (edge < np.repeat(nodes, bonds)[:, None]).all():
        raise ValueError(f"{folder}/raw/edge.csv.gz: expected nodes of the edge's graph, got others; it is corrupt")
    dtype = np.uint8 if nodes.max(initial=0) <= 256 else np.int16
    edge_index = np.stack([edge, edge[:, ::-1]], axis=1).reshape(-1, 2).T.astype(dtype)
    return PackedGraphs(
        _pointer(nodes),
        _pointer(2 * bonds),
        torch.from_numpy(np.ascontiguousarray(edge_index)),
        nodes={"x": torch.from_numpy(tables["node-feat"].astype(np.uint8))},
        edges={"edge_attr": torch.from_numpy(tables["edge-feat"].astype(np.uint8).repeat(2, axis=0))},
        graphs={"y": torch.from_numpy(tables["graph-label"]), "split": _read_split(folder, len(nodes))},
    )


def read_table(file: Path, columns: int | None) -> Table:
    """A gzipped CSV without header as int32; without ``columns`` as float32, with NaN for empty fields."""
    try:
        text = gzip.decompress(file.read_bytes()).replace(b"\r", b"")
    except (EOFError, OSError, zlib.error) as error:
        raise ValueError(f"{file}: expected a complete gzip file, got {error}; download it again") from error
    text = text.removesuffix(b"\n")
    width = columns or text.partition(b"\n")[0].count(b",") + 1
    rows = text.count(b"\n") + 1 if text else 0
    text = text.replace(b"\n", b",")
    dtype: type[np.generic] = np.int32
    if columns is None:
        dtype = np.float32
        text = b"," + text + b","
        text = text.replace(b",,", b",nan,").replace(b",,", b",nan,")[1:-1]
    values = _parse_numbers(text, dtype)
    if values.size != rows * width or (columns is not None and values.min(initial=0) < 0):
        raise ValueError(f"{file}: expected {rows} rows of {width} numbers, got something else; download it again")
    return values.reshape(rows, width)


def _parse_numbers(text: bytes, dtype: type[np.generic]) -> Table:
    """Comma-separated numbers; an empty array if one of them cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # an error in newer NumPy
            return np.fromstring(text.decode("ascii", "replace"), dtype=dtype, sep=",")
    except (ValueError, DeprecationWarning):
        return np.empty(0, dtype)


def _check_rows(folder: Path, name: str, tables: dict[str, Table], rows: int, by: str) -> None:
    if len(tables[name]) != rows:
        raise ValueError(
            f"{folder}/raw/{name}.csv.gz: expected {rows} rows by {by}.csv.gz, got {len(tables[name])}; one of the two "
            "is truncated, download them again"
        )


def _read_split(folder: Path, num_graphs: int) -> torch.Tensor:
    indices = [read_table(folder / "split" / "scaffold" / f"{name}.csv.gz", 1)[:, 0] for name in SPLITS]
    joined = np.concatenate(indices)
    if not np.array_equal(np.sort(joined), np.arange(num_graphs)):
        raise ValueError(
            f"{folder}/split/scaffold: expected each of {num_graphs} graphs once, got {len(np.unique(joined))} "
            f"different among {len(joined)}; download the split again"
        )
    split = np.empty(num_graphs, dtype=np.uint8)
    for label, graphs in enumerate(indices):
        split[graphs] = label
    return torch.from_numpy(split)


def _pointer(counts: Table) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([[0], counts.cumsum()]))
