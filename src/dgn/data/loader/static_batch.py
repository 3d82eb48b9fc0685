"""Batches of one shape, each in one row of memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.aggregation import Weights
from dgn.graph import Graph, Layout, graph_from_layout


class Batch(NamedTuple):
    """Some graphs side by side, with padding behind them.

    Padding nodes belong to one graph more, the last; padding edges to no node. ``real`` and ``real_graphs`` are 1 for
    what is real and 0 for padding, ``padded`` says whether there are nodes of padding. Edges are sorted by target.

    Shapes:
        ``real`` [N, 1], ``real_graphs`` [G + 1, 1]; ``nodes``, ``edges`` and ``graphs`` hold values of N, E and G + 1
        rows.
    """

    graph: Graph
    weights: Weights
    real: Tensor
    real_graphs: Tensor
    nodes: Mapping[str, Tensor]
    edges: Mapping[str, Tensor]
    graphs: Mapping[str, Tensor]
    padded: bool


class BatchShape(NamedTuple):
    """The size of a batch: graphs, nodes and edges, padding included, and whether there is any padding of nodes."""

    graphs: int
    nodes: int
    edges: int
    padded: bool = True


class BufferSlot(NamedTuple):
    """Where an array stands in the words of a batch, and what it is."""

    start: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def words(self) -> int:
        return prod(self.shape) * self.dtype.itemsize // 4

    def view(self, row: Tensor) -> Tensor:
        """The array in a row of words, without copying."""
        return row[self.start : self.start + self.words].view(self.dtype).view(self.shape)


def lay_out(arrays: Mapping[str, tuple[tuple[int, ...], torch.dtype]]) -> tuple[dict[str, BufferSlot], int]:
    """Slots for arrays of these shapes and types, and how many words they take."""
    slots, start = {}, 0
    for name, (shape, dtype) in arrays.items():
        slots[name] = BufferSlot(start, shape, dtype)
        start += slots[name].words + slots[name].words % 2  # numbers of 8 bytes begin at even words
    return slots, start


@dataclass(frozen=True, eq=False)
class StaticBatches:
    """Batches of one shape: a row of ``words`` holds all arrays of one of them.

    One copy of a row brings a whole batch to a fixed place, from which a captured step reads it.

    Shapes:
        ``words`` [S, W] int32.
    """

    words: Tensor
    slots: Mapping[str, BufferSlot]
    room: BatchShape
    _last: list[Any] = field(default_factory=list, init=False)

    @classmethod
    def of(cls, arrays: Mapping[str, Tensor], room: BatchShape) -> "StaticBatches":
        """Pack arrays [S, ...] of 4 or 8 bytes a number.

        Values of nodes, edges and graphs are named ``nodes.x`` and so on; ``known.`` stands before the names of what
        the graph would otherwise make itself.
        """
        first = next(iter(arrays.values()))
        steps = first.size(0)
        slots, length = lay_out({name: (tuple(array.shape[1:]), array.dtype) for name, array in arrays.items()})
        words = torch.zeros(steps, length, dtype=torch.int32, device=first.device)
        for name, slot in slots.items():
            if slot.words:
                flat = arrays[name].contiguous().view(steps, -1)
                words[:, slot.start : slot.start + slot.words] = flat.view(torch.int32)
        return cls(words, slots, room)

    def to(self, device: torch.device | str) -> "StaticBatches":
        return StaticBatches(self.words.to(device, non_blocking=True), self.slots, self.room)

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[Batch]:
        return (self.read(row) for row in self.words)

    def read(self, row: Tensor) -> Batch:
        """The batch in a row of words; its arrays are views of the row. On the CPU, the last one read is kept."""
        if self._last and self._last[0] is row:
            known: Batch = self._last[1]
            return known
        arrays = {name: slot.view(row) for name, slot in self.slots.items()}
        tables: dict[str, dict[str, Tensor]] = {"nodes": {}, "edges": {}, "graphs": {}, "known": {}}
        for name in arrays:
            kind, _, own = name.partition(".")
            if own:
                tables[kind][own] = arrays[name]
        ends = arrays["ends"]
        order = torch.arange(self.room.edges, dtype=torch.int32, device=row.device)
        graph = graph_from_layout(
            ends if row.is_cuda else ends.long(),  # kernels on a GPU read the layout alone
            arrays["number"],
            self.room.graphs + 1,
            by_target=Layout(arrays["pointer"], order, ends[0]),
            source_pointer=arrays["source_pointer"],
            place=arrays["place"],
            node_pointer=arrays["node_pointer"],
            **tables.pop("known"),
        )
        weights = Weights(arrays["weight"], arrays["self_weight"])
        batch = Batch(graph, weights, arrays["real"], arrays["real_graphs"], **tables, padded=self.room.padded)
        if not row.is_cuda:  # a captured step reads new batches from the same row
            self._last[:] = row, batch
        return batch
