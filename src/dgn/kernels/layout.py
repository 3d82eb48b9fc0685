"""The layout of edges that kernels read."""

from typing import NamedTuple

from torch import Tensor


class SortedEdges(NamedTuple):
    """Edges sorted by both ends; positions are int32.

    Shapes:
        ``pointer`` and ``source_pointer`` [N + 1] int64, where the edges of each target and source begin; ``order`` and
        ``neighbor`` [E] sorted by target; ``source_order`` [E], edges sorted by source, and its inverse
        ``edge_to_source``.
    """

    pointer: Tensor
    source_pointer: Tensor
    order: Tensor
    neighbor: Tensor
    source_order: Tensor
    edge_to_source: Tensor
