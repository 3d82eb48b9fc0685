"""The graphs of an experiment, with the directions that its network reads."""

from dgn.data.benchmarks import Benchmark, load_benchmark, with_directions
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
    if not experiment.num_directions:
        return benchmark
    return with_directions(benchmark, experiment.num_directions, data.normalization, progress=progress)
