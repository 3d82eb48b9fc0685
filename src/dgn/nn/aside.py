"""Gradients of parameters, computed beside the way back: nobody waits for them before the update."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

_SIDE: ContextVar["torch.cuda.Stream | None"] = ContextVar("side", default=None)


@contextmanager
def aside(stream: "torch.cuda.Stream | None") -> Iterator[None]:
    """While it lasts, layers note a stream on which their parameters' gradients will be computed.

    Whoever uses it waits for that stream before reading the gradients. Inside a captured CUDA graph the two become
    branches that run at once.
    """
    token = _SIDE.set(stream)
    try:
        yield
    finally:
        _SIDE.reset(token)


def current_side() -> "torch.cuda.Stream | None":
    """The stream that :func:`aside` gave, if any."""
    return _SIDE.get()


@contextmanager
def on(side: "torch.cuda.Stream | None", *inputs: Tensor) -> Iterator[None]:
    """Queue what follows on a stream of its own, behind all that was queued before; ``inputs`` stay alive for it."""
    if side is None:
        yield
        return
    side.wait_stream(torch.cuda.current_stream(side.device))
    for tensor in inputs:
        tensor.record_stream(side)
    with torch.cuda.stream(side):
        yield
