"""Weight gradients on a side CUDA stream, overlapped with the backward pass; only the optimizer waits."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor

_HERE: AbstractContextManager[None] = nullcontext()
# What a stream reads is held until somebody waits for it: autograd adds gradients up in place where nobody holds them.
_READ_BY: dict["torch.cuda.Stream", list[Tensor]] = {}
_WGRAD_STREAM: ContextVar["torch.cuda.Stream | None"] = ContextVar("wgrad stream", default=None)


@contextmanager
def use_wgrad_stream(stream: "torch.cuda.Stream | None") -> Iterator[None]:
    """While it lasts, layers note a stream on which their parameters' gradients will be computed.

    Whoever uses it waits for that stream (:func:`wait_for`) before reading the gradients. Inside a captured CUDA graph
    the two become branches that run at once.
    """
    token = _WGRAD_STREAM.set(stream)
    try:
        yield
    finally:
        _WGRAD_STREAM.reset(token)


def current_wgrad_stream() -> "torch.cuda.Stream | None":
    """The stream that :func:`use_wgrad_stream` gave, if any."""
    return _WGRAD_STREAM.get()


def on(stream: "torch.cuda.Stream | None", *inputs: Tensor) -> AbstractContextManager[Any]:
    """Queue what follows on a stream of its own, behind all that was queued before; ``inputs`` stay alive for it."""
    if stream is None:
        return _HERE
    stream.wait_stream(torch.cuda.current_stream(stream.device))
    for tensor in inputs:
        tensor.record_stream(stream)
    _READ_BY.setdefault(stream, []).extend(inputs)
    return torch.cuda.stream(stream)


def wait_for(stream: "torch.cuda.Stream") -> None:
    """Let what follows wait for all gradients that are computed on a stream."""
    torch.cuda.current_stream(stream.device).wait_stream(stream)
    _READ_BY.pop(stream, None)


def join(stream: "torch.cuda.Stream | None", *outputs: Tensor | None) -> None:
    """Let what follows wait for a stream, and read ``outputs``, which were made there."""
    if stream is None:
        return
    main = torch.cuda.current_stream(stream.device)
    main.wait_stream(stream)
    for tensor in outputs:
        if tensor is not None:
            tensor.record_stream(main)


class GradAccumulator:
    """A gradient that is gathered on the side stream, if there is one, and handed over at the end.

    Its parts are products ``left @ right``, summed up at the end. Parts of a backward pass that did not ask for this
    gradient are dropped before the next one.
    """

    def __init__(self) -> None:
        self.stream = current_wgrad_stream()
        self.parts: list[tuple[Tensor, Tensor]] = []
        self.graph_task = -1

    def add(self, left: Tensor, right: Tensor) -> None:
        """Add a part ``left @ right``; ``left`` [R, C] was made on the stream, ``right`` [C, D] long ago."""
        current = torch._C._current_graph_task_id()
        if current != self.graph_task:
            self.parts, self.graph_task = [], current
        self.parts.append((left, right))

    def take(self) -> Tensor | None:
        """The sum of all parts, which are then forgotten."""
        if not self.parts:
            return None
        with _HERE if self.stream is None else torch.cuda.stream(self.stream):
            (left, right), *rest = self.parts
            total = left @ right
            for left, right in rest:
                total.addmm_(left, right)
        self.parts = []
        join(self.stream, total)
        return total


def defer_grad(values: Tensor, accumulator: GradAccumulator) -> Tensor:
    """An anchor whose users add the gradient of ``values`` to ``accumulator``; the last of them passes it on."""
    anchor: Tensor = _Gather.apply(values, accumulator)  # type: ignore[no-untyped-call]
    return anchor


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, accumulator: GradAccumulator) -> Tensor:
        ctx.accumulator = accumulator
        return values.new_empty(0)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, None]:  # noqa: ARG004, it is empty
        return ctx.accumulator.take(), None
