"""Gradients of parameters, computed beside the way back: nobody waits for them before the update."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

_SIDE: ContextVar["torch.cuda.Stream | None"] = ContextVar("side", default=None)


@contextmanager
def use_wgrad_stream(stream: "torch.cuda.Stream | None") -> Iterator[None]:
    """While it lasts, layers note a stream on which their parameters' gradients will be computed.

    Whoever uses it waits for that stream before reading the gradients. Inside a captured CUDA graph the two become
    branches that run at once.
    """
    token = _SIDE.set(stream)
    try:
        yield
    finally:
        _SIDE.reset(token)


def current_wgrad_stream() -> "torch.cuda.Stream | None":
    """The stream that :func:`use_wgrad_stream` gave, if any."""
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


class GradAccumulator:
    """A gradient that is gathered on the side stream, if there is one, and handed over at the end.

    Its parts are products ``left @ right``, summed up at the end. Those of a way back that nobody asked for this
    gradient stay behind, and do not enter the next one.
    """

    def __init__(self) -> None:
        self.side = current_wgrad_stream()
        self.parts: list[tuple[Tensor, Tensor]] = []
        self.way_back = -1

    def add(self, left: Tensor, right: Tensor) -> None:
        """Add a part ``left @ right``; ``left`` [R, C] was made on the side, ``right`` [C, D] long ago."""
        current = torch._C._current_graph_task_id()
        if current != self.way_back:
            self.parts, self.way_back = [], current
        self.parts.append((left, right))

    def join(self, *outputs: Tensor | None) -> None:
        """Let what follows wait for the side, and read ``outputs``, which were made there."""
        if self.side is None:
            return
        main = torch.cuda.current_stream(self.side.device)
        main.wait_stream(self.side)
        for tensor in outputs:
            if tensor is not None:
                tensor.record_stream(main)

    def take(self) -> Tensor | None:
        """The sum of all parts, which are then forgotten."""
        if not self.parts:
            return None
        with self._there():
            (left, right), *rest = self.parts
            total = left @ right
            for left, right in rest:
                total.addmm_(left, right)
        self.parts = []
        self.join(total)
        return total

    def _there(self) -> AbstractContextManager[Any]:
        return nullcontext() if self.side is None else torch.cuda.stream(self.side)


def defer_grad(values: Tensor, beside: GradAccumulator) -> Tensor:
    """A token whose users give the gradient of ``values`` to ``beside``; it goes on when all of them are done."""
    token: Tensor = _Gather.apply(values, beside)  # type: ignore[no-untyped-call]
    return token


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, beside: GradAccumulator) -> Tensor:
        ctx.beside = beside
        return values.new_empty(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:  # noqa: ARG004, it is empty
        return ctx.beside.take(), None
