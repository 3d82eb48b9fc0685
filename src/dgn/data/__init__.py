"""Datasets of graphs: packed files, precomputed directions and encodings, benchmarks, batches on a device."""

from dgn.data.benchmark import Benchmark, load_benchmark
from dgn.data.datasets.from_graphs import benchmark_from_graphs
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions

__all__ = ["Benchmark", "PackedGraphs", "add_directions", "benchmark_from_graphs", "load_benchmark"]
