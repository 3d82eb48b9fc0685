"""CUDA graphs of a training step, and of gathering the batches that it reads."""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import torch
from torch import Tensor

from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.loader.static_batch import BatchShape, StaticBatches

Step = Callable[[Tensor, Tensor], None]

WARMUP = 3  # calls before a capture, in which kernels are compiled and memory is allocated


class GraphedStep:
    """Run ``step(row, counter)`` for the first rows of ``buffer`` [S, W].

    With ``capture`` the step becomes one CUDA graph that fetches its row by a counter on the device. Each repetition is
    then a single launch without synchronization. The step must not depend on the host, and must read and write the same
    tensors every time; ``generators`` are those it draws from. Without ``capture`` the step is called.
    """

    def __init__(
        self, step: Step, buffer: Tensor, generators: Iterable[torch.Generator] = (), capture: bool = False
    ) -> None:
        self.step, self.buffer = step, buffer
        self.counter = torch.zeros(1, dtype=torch.long, device=buffer.device)
        self.graph: torch.cuda.CUDAGraph | None = None
        if capture:
            self.row = torch.zeros_like(buffer[0])
            self._capture(generators)

    def steps(self, count: int) -> Iterator[None]:
        """Repeat the step for the first ``count`` rows, one at a time."""
        self.counter.zero_()
        for index in range(count):
            if self.graph is None:
                self.step(self.buffer[index], self.counter)
                self.counter += 1
            else:
                self.graph.replay()
            yield

    def _run_step(self) -> None:
        torch.index_select(self.buffer, 0, self.counter, out=self.row[None])
        self.step(self.row, self.counter)
        self.counter += 1

    def _capture(self, generators: Iterable[torch.Generator]) -> None:
        stream = torch.cuda.current_stream()
        for _ in range(WARMUP):
            self.counter.zero_()
            self._run_step()
        self.counter.zero_()
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self.graph.register_generator_state(generator)
        with capture_graph(self.graph, stream):
            self._run_step()


class EpochBuffer:
    """Batches of a dataset in the rows of ``buffer`` [S, W], always at the same address.

    Gathering takes many small operations. Where the graphs are on the device and unchanged, these are captured as one
    CUDA graph too; a dataset that an epoch replaces (:meth:`DeviceDataset.replaced`) is gathered step by step. All of
    it is queued after the previous steps, which still read the old batches.
    """

    def __init__(
        self, dataset: DeviceDataset, shape: BatchShape, example: StaticBatches, rows: int, device: torch.device
    ) -> None:
        self.dataset, self.shape = dataset, shape
        self.buffer = example.buffer[:1].to(device).expand(rows, -1).contiguous()
        self.index = torch.full((rows, shape.graphs), -1, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def fill_chunks(self, chunks: Sequence[Tensor], dataset: DeviceDataset, prefilled: bool) -> Iterator[None]:
        """Fill the buffer with one chunk of an epoch after the other; ``prefilled``: it holds the first one already.

        From another device the next chunk is gathered in a thread while the current one is used.
        """
        if self.dataset.device == self.buffer.device:
            for number, chunk in enumerate(chunks):
                if number or not prefilled:
                    self.fill(chunk, dataset)
                yield
            return
        with ThreadPoolExecutor(1) as pool:
            pending = pool.submit(dataset.gather, chunks[0], self.shape)
            for next_chunk in [*chunks[1:], None]:
                batches = pending.result()
                if next_chunk is not None:
                    pending = pool.submit(dataset.gather, next_chunk, self.shape)
                self.buffer[: len(batches)].copy_(batches.buffer, non_blocking=True)
                yield

    def fill(self, index: Tensor, dataset: DeviceDataset) -> None:
        """Write the batches of the graphs ``index`` [S, B] of a dataset into the first rows."""
        if dataset is not self.dataset:
            self.buffer[: len(index)].copy_(dataset.gather(index, self.shape).buffer)
            return
        if self.graph is None:
            self._capture()
        assert self.graph is not None
        self.index[: len(index)].copy_(index.pin_memory(), non_blocking=True)
        self.graph.replay()

    def _capture(self) -> None:
        stream = torch.cuda.current_stream()
        self._gather()
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with capture_graph(self.graph, stream):
            self._gather()

    def _gather(self) -> None:
        self.buffer.copy_(self.dataset.gather(self.index, self.shape).buffer)


@contextmanager
def capture_graph(graph: torch.cuda.CUDAGraph, stream: torch.cuda.Stream) -> Iterator[None]:
    """Record kernels into a graph instead of running them; other threads may use the device meanwhile."""
    with pause_gc(), torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        yield


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pause the garbage collector: an old CUDA graph that it frees would invalidate a capture."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
