"""Arguments and saved tensors of the aggregation kernels: plain tensors and integers, no names and no graph."""

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor


class Code(IntEnum):
    """The type of one output of a kernel; a directional sum also has the column of its weights."""

    SUM = 0
    MEAN = 1
    MAX = 2
    MIN = 3
    VAR = 4
    STD = 5
    SIGNED = 6
    ABSOLUTE = 7


SMALLEST_VARIANCE = 1e-5  # as in PyG: up to it the standard deviation and its gradient are 0


class KernelArgs(NamedTuple):
    """The arguments of one aggregation; parts as in ``Messages``, edges sorted by target.

    ``target_to_source`` is the position of each edge of that order in the order sorted by source, whose edges of node
    j are ``source_pointer[j]`` to ``source_pointer[j + 1]``. ``number`` [E, R], GPU only, are edge features in place of
    ``row``: the part of an edge is the product of its features with the table.
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
    target_to_source: Tensor
    codes: Sequence[int]
    columns: Sequence[int]
    has_self: bool
    save: bool
    number: Tensor | None = None

    def needs(self, *codes: Code) -> bool:
        return any(code in codes for code in self.codes)

    @property
    def example(self) -> Tensor:
        """A tensor with the channels, dtype and device of the messages."""
        present = [part for part in (self.source, self.target, self.table) if part is not None]
        return present[0]

    @property
    def num_nodes(self) -> int:
        return self.pointer.size(0) - 1

    @property
    def table_row(self) -> Tensor:
        """The row of the table of each edge."""
        return self.order if self.row is None else self.row

    def empty_outputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Uninitialised outputs, and the tensors of the backward pass: indices of extremes, signs, averages.

        Averages are relative to the first message of a node, against cancellation of a common offset.
        """
        like, n, c = self.example, self.num_nodes, self.example.size(1)
        keep_max, keep_min = (self.save and self.needs(code) for code in (Code.MAX, Code.MIN))
        keep_average = self.save and self.needs(Code.VAR, Code.STD)
        keep_sign = self.save and self.needs(Code.ABSOLUTE)
        signed = {column for code, column in zip(self.codes, self.columns, strict=True) if code == Code.ABSOLUTE}
        # 0 for sums without an absolute value
        signs = like.new_empty if len(signed) == self.weight.size(1) else like.new_zeros
        accumulator = torch.promote_types(like.dtype, torch.float32)
        return (
            like.new_empty(n, len(self.codes), c),
            like.new_empty(n if keep_max else 0, c, dtype=torch.int32),
            like.new_empty(n if keep_min else 0, c, dtype=torch.int32),
            signs(n if keep_sign else 0, self.weight.size(1), c, dtype=torch.int8),
            like.new_empty(n if keep_average else 0, c, dtype=accumulator),
        )

    def empty_gradients(self, cleared: bool = True) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Uninitialised gradients of messages, source, target and node.

        ``cleared``: gradients of messages start at 0 where kernels may leave some of them out.
        """
        like, c = self.example, self.example.size(1)
        sources = 0 if self.source is None else self.source.size(0)
        # Kernels leave out padding, edges without a target; the gradient of a table reads all edges.
        edges = like.new_empty if self.table is None or not cleared else like.new_zeros
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
