"""Files of PyTorch and PyG, and pickles of tensors, read once and without executing code."""

import io
import pickle
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dgn.data.io.npz import check_entries

# Raised by PyTorch, pickle and zipfile for bytes that are damaged or of another format.
DAMAGED = (
    ArithmeticError, AssertionError, AttributeError, EOFError, ImportError, IndexError, KeyError, MemoryError,
    NotImplementedError, RuntimeError, TypeError, UnicodeError, ValueError, zipfile.BadZipFile,
)  # fmt: skip
_EMPTY_ARRAY = np.empty(0).__reduce__()[0]  # what pickles call first; NumPy 2 has it under another name than NumPy 1
# What a pickle of tensors and arrays may call, by module and name; storages are the pickled bytes of another file.
TENSORS = {
    ("numpy", "dtype"): np.dtype,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy.core.multiarray", "_reconstruct"): _EMPTY_ARRAY,
    ("numpy._core.multiarray", "_reconstruct"): _EMPTY_ARRAY,
    ("collections", "OrderedDict"): dict,
    ("torch._utils", "_rebuild_tensor_v2"): torch._utils._rebuild_tensor_v2,
    ("torch.storage", "_load_from_bytes"): lambda content: torch.load(io.BytesIO(content), weights_only=True),
}


def read_pt(path: Path) -> Any:
    """The content of a file of ``torch.save``: tensors, plain Python and PyG's ``Data``; anything else is refused.

    The file is read once, so what was checked is what is returned.
    """
    from torch_geometric.data.data import DataEdgeAttr, DataTensorAttr
    from torch_geometric.data.storage import GlobalStorage

    if not path.exists():
        raise FileNotFoundError(f"{path}: expected a file of PyTorch, found nothing; check the path")
    content = io.BytesIO(path.read_bytes())
    try:
        if zipfile.is_zipfile(content):  # PyTorch itself does not compare the checksums
            with zipfile.ZipFile(content) as archive:
                _check_archive(archive)
        content.seek(0)
        with torch.serialization.safe_globals([DataEdgeAttr, DataTensorAttr, GlobalStorage]):
            return torch.load(content, weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(
            f"{path}: expected tensors and PyG Data, got a pickle that could execute code, or a damaged one; load it "
            "yourself and pass it to PackedGraphs.from_data"
        ) from error
    except DAMAGED as error:
        raise ValueError(f"{path}: expected a complete file of PyTorch, got {error!r}; write it again") from error


def read_data(path: Path) -> Iterator[Any]:
    """The graphs of a PyG file: a list of ``Data``, or a processed dataset."""
    from torch_geometric.data import Data, InMemoryDataset

    content = read_pt(path)
    if isinstance(content, list):
        return iter(content)
    if not isinstance(content, tuple) or len(content) not in (2, 3):
        raise ValueError(
            f"{path}: expected a processed dataset or a list of Data, got {type(content).__name__}; save a list of Data"
        )
    data, slices, *kind = content
    if kind not in ([], [Data]) or not isinstance(data, dict | Data):
        raise ValueError(
            f"{path}: expected a processed dataset of Data, got {type(data).__name__}; save a list of Data"
        )
    dataset = InMemoryDataset()
    dataset.data, dataset.slices = (Data.from_dict(data) if isinstance(data, dict) else data), slices
    try:
        return iter([dataset[index] for index in range(len(dataset))])
    except DAMAGED as error:
        raise ValueError(f"{path}: expected a complete processed dataset, got {error!r}; write it again") from error


def read_pickle(path: Path) -> Any:
    """The content of a pickle of plain Python, tensors and arrays; anything else is refused."""
    with path.open("rb") as file:
        try:
            return _TensorUnpickler(file).load()
        except (pickle.UnpicklingError, *DAMAGED) as error:
            raise ValueError(
                f"{path}: expected a pickle of tensors and plain Python, got {error!r}; remove it and download it again"
            ) from error


class _TensorUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in TENSORS:
            raise pickle.UnpicklingError(f"{module}.{name}, which could execute code")
        return TENSORS[module, name]


def _check_archive(archive: zipfile.ZipFile) -> None:
    """Refuse an archive with missing entries or other checksums."""
    check_entries(archive)
    damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"another checksum of {damaged}")
