"""Filling the memory that a captured step reads with the batches of an epoch."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.loader.static_batch import BatchShape, StaticBatches
from dgn.training.cuda_graphs import captured


class EpochBuffer:
    """Batches of a dataset in the rows of ``words`` [S, W], always at the same place.

    Gathering is many small operations: where the graphs lie on the device and stay as they are, they are captured as
    one CUDA graph too; what an epoch puts in their place (:meth:`DeviceDataset.replaced`) is gathered step by step. All
    is queued behind the steps before, which still read the old batches.
    """

    def __init__(
        self, store: DeviceDataset, room: BatchShape, example: StaticBatches, rows: int, device: torch.device
    ) -> None:
        self.store, self.room = store, room
        self.words = example.words[:1].to(device).expand(rows, -1).contiguous()
        self.numbers = torch.full((rows, room.graphs), -1, device=device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def fill_parts(self, parts: Sequence[Tensor], store: DeviceDataset, fed: bool) -> Iterator[None]:
        """Fill in one part of an epoch after the other from ``store``; ``fed`` says that the first is there already.

        From another device the next part is gathered in a thread while this one is used.
        """
        if self.store.device == self.words.device:
            for number, part in enumerate(parts):
                if number or not fed:
                    self.fill(part, store)
                yield
            return
        with ThreadPoolExecutor(1) as pool:
            coming = pool.submit(store.gather, parts[0], self.room)
            for following in [*parts[1:], None]:
                batches = coming.result()
                if following is not None:
                    coming = pool.submit(store.gather, following, self.room)
                self.words[: len(batches)].copy_(batches.words, non_blocking=True)
                yield

    def fill(self, numbers: Tensor, store: DeviceDataset) -> None:
        """Put the batches of the graphs ``numbers`` [S, B] of a store into the first rows."""
        if store is not self.store:
            self.words[: len(numbers)].copy_(store.gather(numbers, self.room).words)
            return
        if self.graph is None:
            self._capture()
        assert self.graph is not None
        self.numbers[: len(numbers)].copy_(numbers.pin_memory(), non_blocking=True)
        self.graph.replay()

    def _capture(self) -> None:
        stream = torch.cuda.current_stream()
        self._gather()
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with captured(self.graph, stream):
            self._gather()

    def _gather(self) -> None:
        self.words.copy_(self.store.gather(self.numbers, self.room).words)
