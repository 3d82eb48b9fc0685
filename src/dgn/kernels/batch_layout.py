"""The arrays of a static batch beside the features of its nodes, edges and graphs."""

from typing import Any, NamedTuple


class BatchLayout(NamedTuple):
    """One record for the writer and the reader of a batch; tensors or NumPy arrays.

    Padding nodes belong to one graph more, the last; padding edges begin and end in the last node.

    Shapes:
        ``edge_index`` [2, E] and ``target_to_source`` [E] int32; ``pointer`` and ``source_pointer`` [N + 1], ``batch``
        [N] and ``node_pointer`` [G + 2] int64; ``graph_norm`` [N, 1], ``graph_size`` [G + 1, 1], ``node_mask`` [N, 1]
        and ``graph_mask`` [G + 1, 1] float32.
    """

    edge_index: Any
    target_to_source: Any
    pointer: Any
    source_pointer: Any
    batch: Any
    node_pointer: Any
    graph_norm: Any
    graph_size: Any
    node_mask: Any
    graph_mask: Any
