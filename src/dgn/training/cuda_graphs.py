"""A step that is repeated: captured once as a CUDA graph and replayed, or simply called."""

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

Step = Callable[[Tensor, Tensor], None]

WARMUP = 3  # calls before a capture, in which kernels are compiled and memory is found


class GraphedStep:
    """Run ``step(row, counter)`` for the first rows of ``words`` [S, W].

    With ``capture`` the step becomes one CUDA graph that fetches its row by a counter on the device: each repetition
    is a single launch, and nothing waits. The step must then not depend on the host, and read and write the same
    tensors every time; ``generators`` are those it draws from. Without, the step is called.
    """

    def __init__(
        self, step: Step, words: Tensor, generators: Iterable[torch.Generator] = (), capture: bool = False
    ) -> None:
        self.step, self.words = step, words
        self.counter = torch.zeros(1, dtype=torch.long, device=words.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        if capture:
            self.row = torch.zeros_like(words[0])
            self._capture(generators)

    def steps(self, count: int) -> Iterator[None]:
        """Repeat the step for the first ``count`` rows, one at a time."""
        self.counter.zero_()
        for number in range(count):
            if self.graph is None:
                self.step(self.words[number], self.counter)
                self.counter += 1
            else:
                self.graph.replay()
            yield

    def _once(self) -> None:
        torch.index_select(self.words, 0, self.counter, out=self.row[None])
        self.step(self.row, self.counter)
        self.counter += 1

    def _capture(self, generators: Iterable[torch.Generator]) -> None:
        stream = torch.cuda.current_stream()
        for _ in range(WARMUP):
            self.counter.zero_()
            self._once()
        self.counter.zero_()
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self.graph.register_generator_state(generator)
        with captured(self.graph, stream):
            self._once()


@contextmanager
def captured(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream) -> Iterator[None]:
    """What is queued meanwhile becomes a graph instead of being run; other threads are not minded."""
    with without_collection(), torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        yield


@contextmanager
def without_collection() -> Iterator[None]:
    """Let Python collect no garbage meanwhile: an old graph among it frees memory, which would spoil a capture."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
