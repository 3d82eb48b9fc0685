"""Checkpoints: tensors and plain data in one file, written in full or not at all. Loading one runs no code."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from torch import Tensor

from dgn.data.io.files import digest, save_whole

FORMAT = "dgn checkpoint 2"
MODEL = "model.safetensors"  # what a finished seed leaves in its folder


def save_checkpoint(path: Path, tensors: Mapping[str, Tensor], state: Mapping[str, Any]) -> None:
    """Write tensors and plain data (numbers, strings, lists, mappings)."""
    about = {"format": FORMAT, "state": json.dumps(state)}
    about["checksum"] = digest(tensors, about)
    save_whole(path, {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, about)


def load_checkpoint(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read what :func:`save_checkpoint` wrote; refuse any damage."""
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a mapping
    except SafetensorError as problem:
        raise ValueError(f"{path}: expected a checkpoint, got {problem}; remove it to start again") from problem
    if about.get("format") != FORMAT:
        raise ValueError(f"{path}: expected format {FORMAT!r}, got {about.get('format')!r}; remove it to start again")
    if about.pop("checksum", None) != digest(tensors, about):
        raise ValueError(f"{path}: expected the checksum it was written with, got another; remove it to start again")
    return tensors, json.loads(about["state"])
