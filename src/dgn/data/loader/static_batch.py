"""Batches of one shape, each in one row of memory."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.aggregation import ScalerKey, Weights
from dgn.graph import Graph, GraphParts, Layout

EDGE_WEIGHT, SELF_WEIGHT, SCALERS = "weights.edge", "weights.self", "scalers"  # arrays that are no features


class Batch(NamedTuple):
    """Some graphs side by side, with padding behind them.

    Padding nodes belong to one graph more, the last; padding edges to no node. ``node_mask`` and ``graph_mask`` are
    1 for nodes and graphs of the dataset and 0 for padding, ``padded`` says whether there are nodes of padding. Edges
    are sorted by target.

    Shapes:
        ``node_mask`` [N, 1], ``graph_mask`` [G + 1, 1]; ``nodes``, ``edges`` and ``graphs`` hold values of N, E and G +
        1 rows.
    """

    graph: Graph
    weights: Weights
    node_mask: Tensor
    graph_mask: Tensor
    nodes: Mapping[str, Tensor]
    edges: Mapping[str, Tensor]
    graphs: Mapping[str, Tensor]
    padded: bool


class BatchLayout(NamedTuple):
    """The arrays of a batch beside the features of its nodes, edges and graphs: one record for writer and reader.

    Padding nodes belong to one graph more, the last; padding edges begin and end in the last node.

    Shapes:
        ``edge_index`` [2, E] and ``target_to_source`` [E] int32; ``pointer`` and ``source_pointer`` [N + 1], ``batch``
        [N] and ``node_pointer`` [G + 2] int64; ``graph_norm`` [N, 1], ``graph_size`` [G + 1, 1], ``node_mask`` [N, 1]
        and ``graph_mask`` [G + 1, 1] float32.
    """

    edge_index: Tensor
    target_to_source: Tensor
    pointer: Tensor
    source_pointer: Tensor
    batch: Tensor
    node_pointer: Tensor
    graph_norm: Tensor
    graph_size: Tensor
    node_mask: Tensor
    graph_mask: Tensor


class BatchShape(NamedTuple):
    """The size of a batch: graphs, nodes and edges, padding included, and whether there is any padding of nodes."""

    graphs: int
    nodes: int
    edges: int
    padded: bool = True


class BufferSlot(NamedTuple):
    """Where an array stands in the buffer of a batch, and what it is."""

    start: int
    shape: tuple[int, ...]
    dtype: torch.dtype

    @property
    def length(self) -> int:
        """Words of four bytes."""
        return prod(self.shape) * self.dtype.itemsize // 4

    def view(self, row: Tensor) -> Tensor:
        """The array in a row of the buffer, without copying."""
        return row[self.start : self.start + self.length].view(self.dtype).view(self.shape)


@dataclass(frozen=True, eq=False)
class StaticBatches:
    """Batches of one shape: a row of ``buffer`` holds all arrays of one of them.

    One copy of a row brings a whole batch to a fixed place, from which a captured step reads it.

    Shapes:
        ``buffer`` [S, W] int32.
    """

    buffer: Tensor
    slots: Mapping[str, BufferSlot]
    shape: BatchShape
    scalers: ScalerKey | None = None
    _last: list[Any] = field(default_factory=list, init=False)

    @classmethod
    def of(cls, arrays: Mapping[str, Tensor], shape: BatchShape, scalers: ScalerKey | None = None) -> "StaticBatches":
        """Pack arrays [S, ...] of 4 or 8 bytes a number, under the names of :func:`array_name`.

        ``scalers`` are those in the array ``SCALERS``, if there is one.
        """
        first = next(iter(arrays.values()))
        steps = first.size(0)
        slots, start = {}, 0
        for name, array in arrays.items():
            slots[name] = BufferSlot(start, tuple(array.shape[1:]), array.dtype)
            start += slots[name].length + slots[name].length % 2  # numbers of 8 bytes begin at even words
        buffer = torch.zeros(steps, start, dtype=torch.int32, device=first.device)
        for name, slot in slots.items():
            if slot.length:
                flat = arrays[name].contiguous().view(steps, -1)
                buffer[:, slot.start : slot.start + slot.length] = flat.view(torch.int32)
        return cls(buffer, slots, shape, scalers)

    def to(self, device: torch.device | str) -> "StaticBatches":
        return StaticBatches(self.buffer.to(device, non_blocking=True), self.slots, self.shape, self.scalers)

    def __len__(self) -> int:
        return len(self.buffer)

    def __iter__(self) -> Iterator[Batch]:
        return (self.read(row) for row in self.buffer)

    def read(self, row: Tensor) -> Batch:
        """The batch in a row of the buffer; its arrays are views of the row. On the CPU, the last one read is kept."""
        if self._last and self._last[0] is row:
            last: Batch = self._last[1]
            return last
        arrays = {name: slot.view(row) for name, slot in self.slots.items()}
        layout = BatchLayout(*(arrays[array_name("layout", name)] for name in BatchLayout._fields))
        edge_index, order = layout.edge_index, torch.arange(self.shape.edges, dtype=torch.int32, device=row.device)
        parts = GraphParts(
            num_graphs=self.shape.graphs + 1,
            sorted_by_target=True,
            by_target=Layout(layout.pointer, order, edge_index[0]),
            source_pointer=layout.source_pointer,
            target_to_source=layout.target_to_source,
            edge_to_source=layout.target_to_source,
            node_pointer=layout.node_pointer,
            graph_size={torch.float32: layout.graph_size},
            graph_norm={torch.float32: layout.graph_norm},
            derived={} if self.scalers is None else {self.scalers: arrays[SCALERS]},
        )
        # Kernels on a GPU read the layout alone.
        graph = Graph.from_layout(edge_index if row.is_cuda else edge_index.long(), layout.batch, parts)
        features = {table: _table(arrays, table) for table in ("nodes", "edges", "graphs")}
        weights = Weights(arrays[EDGE_WEIGHT], arrays[SELF_WEIGHT])
        batch = Batch(graph, weights, layout.node_mask, layout.graph_mask, **features, padded=self.shape.padded)
        if not row.is_cuda:  # a captured step reads new batches from the same row
            self._last[:] = row, batch
        return batch


def array_name(table: str, name: str) -> str:
    """The name of an array in a buffer: ``layout`` for those of :class:`BatchLayout`, else nodes, edges or graphs."""
    return f"{table}.{name}"


def _table(arrays: Mapping[str, Tensor], table: str) -> dict[str, Tensor]:
    prefix = array_name(table, "")
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
