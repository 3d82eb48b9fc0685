"""Checkpoints: tensors and JSON metadata in one file, written atomically. Loading one runs no code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from dgn.data.io.files import digest, save_whole

FORMAT = "dgn checkpoint 2"


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write tensors and JSON data."""
    metadata = {"format": FORMAT, "state": json.dumps(state)}
    metadata["checksum"] = digest(tensors, metadata)
    save_whole(path, {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, metadata)


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state that :func:`save_checkpoint` wrote; a damaged file is refused."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a mapping
    except SafetensorError as problem:
        raise ValueError(f"{path}: expected a checkpoint, got {problem}; remove it to start again") from problem
    if metadata.get("format") != FORMAT:
        raise ValueError(
            f"{path}: expected format {FORMAT!r}, got {metadata.get('format')!r}; remove it to start again"
        )
    if metadata.pop("checksum", None) != digest(tensors, metadata):
        raise ValueError(
            f"{path}: expected the checksum that it was written with, got another; remove it to start again"
        )
    return tensors, json.loads(metadata["state"])
