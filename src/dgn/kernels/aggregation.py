"""Arguments and saved tensors of the aggregation kernels: plain tensors and integers, no names and no graph."""

from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor


class Code(IntEnum):
    """The type of one output of a kernel; from ``SIGNED`` on it is directional and has a column of weights."""

    SUM = 0
    MEAN = 1
    MAX = 2
    MIN = 3
    VAR = 4
    STD = 5
    SIGNED = 6
    ABSOLUTE = 7


SMALLEST_VARIANCE = 1e-5  # as in PyG: up to it the standard deviation and its gradient are 0


class SavedOutputs(NamedTuple):
    """Which tensors are saved for the backward pass."""

    at_max: bool
    at_min: bool
    sign: bool
    average: bool


@cache
def saved_outputs(codes: tuple[int, ...]) -> SavedOutputs:
    """What the outputs of a plan save.

    >>> saved_outputs((1, 2, 7))
    SavedOutputs(at_max=True, at_min=False, sign=True, average=False)
    """
    spread = Code.VAR in codes or Code.STD in codes
    return SavedOutputs(Code.MAX in codes, Code.MIN in codes, Code.ABSOLUTE in codes, spread)


class KernelArgs(NamedTuple):
    """The arguments of one aggregation; parts as in ``Messages``, edges sorted by target.

    ``target_to_source`` is the position of each edge of that order in the order sorted by source, whose edges of node
    j are ``source_pointer[j]`` to ``source_pointer[j + 1]``. ``source_order`` [E], GPU only, takes its place where
    each edge has a row of the table and none is padding: the edges sorted by source, as places in ``edge_index``.
    ``number`` [E, R], GPU only, are edge features in place of ``row``: the part of an edge is their product with the
    table.
    """

    source: Tensor | None
    target: Tensor | None
    table: Tensor | None
    row: Tensor | None
    node: Tensor | None
    weight: Tensor
    self_weight: Tensor
    pointer: Tensor
    order: Tensor
    neighbor: Tensor
    source_pointer: Tensor
    target_to_source: Tensor | None
    source_order: Tensor | None
    codes: Sequence[int]
    columns: Sequence[int]
    has_self: bool
    save: bool
    number: Tensor | None = None

    @property
    def example(self) -> Tensor:
        """A tensor with the channels, dtype and device of the messages."""
        part = self.source if self.source is not None else self.target if self.target is not None else self.table
        assert part is not None
        return part

    @property
    def num_nodes(self) -> int:
        return self.pointer.size(0) - 1

    @property
    def table_row(self) -> Tensor:
        """The row of the table of each edge."""
        return self.order if self.row is None else self.row

    @property
    def gradient_order(self) -> Tensor:
        """Where the gradient of each message is written: sorted by source, or in the order of ``edge_index``."""
        return self.order if self.source is None or self.target_to_source is None else self.target_to_source

    @property
    def self_is_source(self) -> bool:
        """Whether a node's message to itself is its source part alone: gradients of the source then hold its own."""
        return self.has_self and self.source is not None and self.target is None and self.node is None

    def empty_outputs(self, unused: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Uninitialised outputs, and the tensors of the backward pass: indices of extremes, signs, averages.

        Averages are relative to the first message of a node, against cancellation of a common offset. What is not saved
        has no rows, or is ``unused``, which takes no allocation. Signs are those of columns with an absolute value.
        """
        like, weights = self.example, self.weight.size(1)
        n, c, saves = self.num_nodes, like.size(1), saved_outputs(tuple(self.codes))

        def space(keep: bool, *shape: int, dtype: torch.dtype) -> Tensor:
            if self.save and keep:
                return like.new_empty(n, *shape, dtype=dtype)
            return like.new_empty(0, *shape, dtype=dtype) if unused is None else unused

        return (
            like.new_empty(n, len(self.codes), c),
            space(saves.at_max, c, dtype=torch.int32),
            space(saves.at_min, c, dtype=torch.int32),
            space(saves.sign, weights, c, dtype=torch.int8),
            space(saves.average, c, dtype=torch.float64 if like.dtype == torch.float64 else torch.float32),
        )

    def empty_gradients(self, cleared: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Uninitialised gradients of messages, source, target and node.

        ``cleared``: gradients of messages start at 0 where kernels may leave some of them out.
        """
        like, c = self.example, self.example.size(1)
        sources = 0 if self.source is None else self.source.size(0)
        # Kernels leave out padding, edges without a target; the gradient of a table reads all edges.
        padded = self.table is not None and self.source_order is None
        edges = like.new_zeros if padded and cleared else like.new_empty
        return (
            edges(self.neighbor.size(0), c),
            like.new_empty(sources, c),
            like.new_empty(0 if self.target is None else self.num_nodes, c),
            like.new_empty(self.num_nodes if self.has_self else 0, c),
        )


class SavedTensors(NamedTuple):
    """Outputs of the forward pass that the backward pass reads."""

    out: Tensor
    at_max: Tensor
    at_min: Tensor
    sign: Tensor
    average: Tensor
