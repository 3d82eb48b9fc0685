"""Kernels as operators of PyTorch, for torch.compile and torch.export, which trace what they run."""

from collections.abc import Callable
from typing import Any

import torch


def register(name: str, function: Callable[..., Any], fake: Callable[..., Any]) -> None:
    """An operator without :func:`torch.library.custom_op`, whose check of each call takes longer than the kernels.

    ``fake`` gives empty results of the same shapes, for tracing.
    """
    torch.library.define(name, torch.library.infer_schema(function, mutates_args=()))
    torch.library.impl(name, ("cpu", "cuda"), function)
    torch.library.register_fake(name, fake)
