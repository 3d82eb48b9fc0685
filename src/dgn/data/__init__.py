"""Collections of graphs: packed files, directions of whole datasets, benchmarks, batches on a device."""

from dgn.data.benchmarks import Benchmark, load_benchmark
from dgn.data.directions import add_directions
from dgn.data.own import own_benchmark
from dgn.data.packed import PackedGraphs

__all__ = ["Benchmark", "PackedGraphs", "add_directions", "load_benchmark", "own_benchmark"]
