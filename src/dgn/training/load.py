"""The graphs of an experiment, with the directions that its network reads."""

from dataclasses import replace

from dgn.data.benchmarks import Benchmark, load_benchmark
from dgn.data.directions import add_directions
from dgn.data.places import default_root
from dgn.training.experiment import Experiment


def load_graphs(experiment: Experiment, progress: bool = False) -> Benchmark:
    """The benchmark of an experiment; eigenvectors are computed on first use and kept.

    Graphs with coordinates have their field already, and a network without directions needs none.

    >>> from dgn.training.experiment import load_experiment
    >>> load_graphs(load_experiment("digits/mean")).graphs.edges["field"].shape
    torch.Size([402528, 2])
    """
    data = experiment.data
    benchmark = load_benchmark(data.dataset, data.path, progress=progress)
    if benchmark.coordinates or not experiment.num_directions:
        return benchmark
    cache = default_root() / "directions"
    k = experiment.num_directions
    graphs = add_directions(benchmark.graphs, k, data.normalization, cache=cache, progress=progress)
    return replace(benchmark, graphs=graphs)
