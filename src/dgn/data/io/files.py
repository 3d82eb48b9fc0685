"""Named tensors in one checksummed file, and arrays packed by NumPy."""

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

ABOUT = "dgn"  # where the words about the tensors are
NUMPY = ("node_ptr", "edge_ptr", "edge_index")  # what an .npz must hold
OWN = {"node_pointer": "node_ptr", "edge_pointer": "edge_ptr"}  # names in an .npz


def digest(tensors: Mapping[str, Tensor], about: Mapping[str, str] | None = None) -> str:
    """A SHA-256 of names, types, shapes and contents, and of the words in ``about``.

    >>> one = {"a": torch.zeros(2)}
    >>> digest(one) == digest({"a": torch.zeros(2)}), digest(one) == digest({"a": torch.zeros(1, 2)})
    (True, False)
    """
    found = hashlib.sha256(json.dumps(dict(about or {}), sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].cpu().contiguous()
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Tensor], about: Mapping[str, str]) -> None:
    """Write tensors and words about them, in full or not at all."""
    kept = _apart({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})
    # Under one name, since safetensors writes several in random order.
    save_whole(path, kept, {ABOUT: json.dumps({**about, "checksum": digest(kept, about)}, sort_keys=True)})


def save_whole(path: Path, tensors: dict[str, Tensor], words: dict[str, str]) -> None:
    """A file of safetensors, in full or not at all; where it cannot be written, as on a full disk, an OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not the process number: two machines may share the folder.
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        unfinished.touch(exist_ok=False)
        mode = unfinished.stat().st_mode  # what files of this user may be read by; safetensors makes them private
        save_file(tensors, unfinished, words)
        unfinished.chmod(mode)
        unfinished.replace(path)
    except SafetensorError as problem:
        raise OSError(f"{path}: expected room to write it, got {problem}; what was there before is whole") from problem
    finally:
        unfinished.unlink(missing_ok=True)


def read_tensors(path: Path, kind: str, check: bool = True) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Map the tensors of a file into memory, with the words about them; refuse another ``format`` and any damage."""
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {}).get(ABOUT, "{}"))
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, json.JSONDecodeError, RecursionError) as problem:
        raise ValueError(f"{path}: expected a file of {kind!r}, got {problem}; make it again") from problem
    found = about.get("format") if isinstance(about, dict) else about
    if found != kind:
        raise ValueError(f"{path}: expected format {kind!r}, got {found!r}; make the file again")
    checksum = about.pop("checksum", None)
    if check and digest(tensors, about) != checksum:
        raise ValueError(f"{path}: expected checksum {checksum}, got another; the file is damaged, make it again")
    return tensors, about


def read_numpy(path: Path) -> dict[str, Tensor]:
    """The arrays of an ``.npz`` under the names of a packed file.

    Beside ``node_ptr``, ``edge_ptr`` and ``edge_index``, every array of numbers with a row per node, edge or graph is
    kept; others are left out. A name such as ``nodes.x`` says which it is.
    """
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    missing = [name for name in NUMPY if name not in arrays]
    if missing:
        raise ValueError(f"{path}: expected arrays {', '.join(NUMPY)}, got none called {', '.join(missing)}")
    node, edge = (arrays[name].astype(np.int64) for name in NUMPY[:2])
    rows = {"nodes": int(node[-1]), "edges": int(edge[-1]), "graphs": len(node) - 1}
    found = {"node_pointer": node, "edge_pointer": edge, "edge_index": arrays["edge_index"]}
    for name, value in arrays.items():
        place = _place(name, value, rows) if name not in NUMPY else None
        if place is not None:
            found[place] = value
    return {name: torch.from_numpy(value) for name, value in found.items()}


def write_numpy(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write the tensors of a packed file as a compressed ``.npz`` that :func:`read_numpy` reads, in full or not at all.

    A few times smaller than a packed file, and slower to read.
    """
    arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
    named = {OWN.get(name, name): array for name, array in arrays.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{secrets.token_hex(4)}.{path.name}")  # NumPy wants its own suffix
    try:
        np.savez_compressed(unfinished, allow_pickle=False, **named)
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same tensors, each in memory of its own: safetensors refuses those that overlap."""
    kept, end = dict(tensors), 0
    for name in sorted(kept, key=lambda name: kept[name].data_ptr()):
        tensor = kept[name]
        if tensor.data_ptr() < end:
            kept[name] = tensor.clone()
        end = max(end, tensor.data_ptr() + tensor.nbytes)
    return kept


def _place(name: str, value: NDArray[np.generic], rows: Mapping[str, int]) -> str | None:
    """The full name of an array, or nothing if it has no row per node, edge or graph."""
    kind, _, own = name.partition(".")
    if own and kind in rows:
        return name
    if value.dtype.kind not in "biuf" or not value.ndim:
        return None
    fitting = [kind for kind, count in rows.items() if count == len(value)]
    if len(fitting) > 1:
        named = "edges" if name.startswith("edge") else {"x": "nodes", "y": "graphs", "split": "graphs"}.get(name)
        if named not in fitting:
            raise ValueError(
                f"{name}: expected as many rows as there are either nodes, edges or graphs, got {len(value)}, which "
                f"fits {' and '.join(fitting)}; call it {fitting[0]}.{name} or {fitting[1]}.{name}"
            )
        fitting = [named]
    return f"{fitting[0]}.{name}" if fitting else None
