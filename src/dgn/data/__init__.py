"""Collections of graphs: packed files, directions of whole datasets, benchmarks, batches on a device."""

from dgn.data.directions import add_directions
from dgn.data.packed import PackedGraphs

__all__ = ["PackedGraphs", "add_directions"]
