"""Loading the graphs of an experiment, with the directions and structural encodings that its network reads."""

from dataclasses import replace

from dgn.data.benchmark import Benchmark, load_benchmark, with_directions, with_fraction
from dgn.data.datasets.paths import cache_root
from dgn.data.precompute.encodings import with_encodings
from dgn.training.config import DataSettings
from dgn.training.experiment import Experiment
from dgn.training.finetune import encode_as, read_initial
from dgn.training.objectives import make_objective


def load_graphs(experiment: Experiment, progress: bool = False) -> Benchmark:
    """The benchmark of an experiment, with ``data.train_fraction`` applied.

    Eigenvectors and structural encodings are computed once and cached. Graphs with coordinates have their field
    already, and a network without directions needs none.

    >>> from dgn.training.experiment import load_experiment
    >>> load_graphs(load_experiment("digits/mean")).graphs.edges["edge_field"].shape
    torch.Size([402528, 2])
    """
    data = experiment.data
    return add_inputs(load_benchmark(data.dataset, data.path, progress=progress), experiment, progress)


def add_inputs(benchmark: Benchmark, experiment: Experiment, progress: bool = False) -> Benchmark:
    """The benchmark with the inputs of an experiment that it lacks, and ``data.train_fraction`` applied."""
    data, metric = experiment.data, experiment.training.metric
    make_objective(benchmark.objective, metric or benchmark.metric)  # refuses another metric before the work
    if experiment.num_directions:
        benchmark = with_directions(
            benchmark, experiment.num_directions, data.normalization, progress=progress, arcsine=data.arcsine
        )
    benchmark = with_fraction(benchmark, data.train_fraction)
    if benchmark.structure is not None:
        return benchmark
    initial = read_initial(experiment)
    if initial is not None:
        return encode_as(benchmark, initial)
    return with_encodings(benchmark, data.rwse_steps, data.ring_sizes, cache_root() / "structure", progress)


def ignore_direction_count(data: DataSettings) -> DataSettings:
    """Data settings without the number of directions: fewer directions are the first columns of more."""
    return replace(data, directions=None)
