"""Named tensors in a checksummed safetensors file or an ``.npz``."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from dgn.data.io.atomic import atomic_file
from dgn.data.io.npz import load_npz

METADATA = "dgn"  # the key of our metadata in a safetensors file
NUMPY = ("node_ptr", "edge_ptr", "edge_index")  # required in an .npz
INFO = "info"  # the name of the information in an .npz, a text
NUMPY_NAMES = {"node_pointer": "node_ptr", "edge_pointer": "edge_ptr"}


def digest(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> str:
    """The SHA-256 of names, dtypes, shapes and contents of tensors, and of ``metadata``.

    >>> one = {"a": torch.zeros(2)}
    >>> digest(one) == digest({"a": torch.zeros(2)}), digest(one) == digest({"a": torch.zeros(1, 2)})
    (True, False)
    """
    sha = hashlib.sha256(json.dumps(dict(metadata or {}), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].cpu().contiguous()
        sha.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return sha.hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], durable: bool = True) -> None:
    """Write tensors and metadata with a checksum, atomically."""
    unshared = _without_overlap({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
    checked = {**metadata, "checksum": digest(unshared, metadata)}
    # Under one key, since safetensors writes several in random order.
    save_whole(path, unshared, {METADATA: json.dumps(checked, sort_keys=True)}, durable)


def save_whole(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str], durable: bool = True) -> None:
    """Write a safetensors file atomically; an OSError if it cannot be written, as on a full disk."""
    with atomic_file(path, durable) as unfinished:
        try:
            save_file(tensors, unfinished, metadata)
        except SafetensorError as error:
            raise OSError(f"{path}: expected room to write it, got {error}; an earlier file is unchanged") from error


def read_tensors(path: Path, format: str, check: bool = True) -> tuple[dict[str, Tensor], dict[str, str]]:  # noqa: A002
    """The memory-mapped tensors and the metadata of a file; another ``format`` or a corrupt file is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = json.loads((file.metadata() or {}).get(METADATA, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: expected a file of {format!r}, got {error}; write it again") from error
    actual = metadata.get("format") if isinstance(metadata, dict) else metadata
    if actual != format:
        raise ValueError(f"{path}: expected format {format!r}, got {actual!r}; write the file again")
    checksum = metadata.pop("checksum", None)
    if check and digest(tensors, metadata) != checksum:
        raise ValueError(f"{path}: expected checksum {checksum}, got another; the file is corrupt, write it again")
    return tensors, metadata


def read_numpy(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors of an ``.npz`` under the names of a packed file, and the information of :func:`write_numpy`.

    Besides ``node_ptr``, ``edge_ptr`` and ``edge_index``, these are all numeric arrays with a row per node, edge or
    graph; a name such as ``nodes.x`` states which. Files of other programs have no information.
    """
    arrays = load_npz(path)
    missing = [name for name in NUMPY if name not in arrays]
    if missing:
        raise ValueError(f"{path}: expected arrays {', '.join(NUMPY)}, got none named {', '.join(missing)}")
    for name in NUMPY:
        if arrays[name].dtype.kind not in "iu" or not (name == "edge_index" or arrays[name].size):
            raise ValueError(f"{path}: expected integers as {name}, got {arrays[name].size} of {arrays[name].dtype}")
    node, edge = (arrays[name].astype(np.int64).reshape(-1) for name in NUMPY[:2])
    rows = {"nodes": int(node[-1]), "edges": int(edge[-1]), "graphs": len(node) - 1}
    tensors = {"node_pointer": node, "edge_pointer": edge, "edge_index": arrays["edge_index"]}
    for name, value in arrays.items():
        key = _packed_name(name, value, rows) if name not in NUMPY else None
        if key is not None:
            tensors[key] = value
    text = arrays.get(INFO, np.array(""))
    info = json.loads(str(text)) if text.dtype.kind == "U" and not text.ndim and str(text) else {}
    packed = {name: torch.from_numpy(value) for name, value in tensors.items()}
    return packed, info if isinstance(info, dict) else {}


def write_numpy(path: Path, tensors: Mapping[str, Tensor], info: Mapping[str, str] | None = None) -> None:
    """Write the tensors of a packed file as a compressed ``.npz`` for :func:`read_numpy`, atomically.

    The file is a few times smaller than a packed file, and slower to read.
    """
    arrays = {NUMPY_NAMES.get(name, name): tensor.cpu().numpy() for name, tensor in tensors.items()}
    arrays |= {INFO: np.array(json.dumps(dict(info), sort_keys=True))} if info else {}
    with atomic_file(path) as unfinished, unfinished.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays)


def _without_overlap(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors, cloned where their memory overlaps, which safetensors refuses."""
    unshared, end = dict(tensors), 0
    for name in sorted(unshared, key=lambda name: unshared[name].data_ptr()):
        tensor = unshared[name]
        if tensor.data_ptr() < end:
            unshared[name] = tensor.clone()
        end = max(end, tensor.data_ptr() + tensor.nbytes)
    return unshared


def _packed_name(name: str, value: NDArray[np.generic], rows: Mapping[str, int]) -> str | None:
    """The name of an array in a packed file, or None if it has no row per node, edge or graph."""
    prefix, _, rest = name.partition(".")
    if value.dtype.kind not in "biuf" or not value.ndim:
        return None
    if rest and prefix in rows:
        return name
    levels = [level for level, count in rows.items() if count == len(value)]
    if len(levels) > 1:
        likely = "edges" if name.startswith("edge") else {"x": "nodes", "y": "graphs", "split": "graphs"}.get(name)
        if likely not in levels:
            raise ValueError(
                f"{name}: expected as many rows as there are either nodes, edges or graphs, got {len(value)}, which "
                f"fits {' and '.join(levels)}; call it {levels[0]}.{name} or {levels[1]}.{name}"
            )
        levels = [likely]
    return f"{levels[0]}.{name}" if levels else None
