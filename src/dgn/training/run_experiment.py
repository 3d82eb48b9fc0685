"""Training the seeds of an experiment into its run folder."""

from collections.abc import Callable, Sequence
from pathlib import Path

from dgn.data.benchmark import Benchmark
from dgn.training import load, trainer
from dgn.training.errors import TrainingError
from dgn.training.experiment import Experiment
from dgn.training.run import EpochReport
from dgn.training.run_folder import FinishedRun, finished_runs, is_begun, write_experiment, write_run

__all__ = ["train_experiment"]


def train_experiment(
    experiment: Experiment,
    out: str | Path,
    graphs: Benchmark | None = None,
    seeds: Sequence[int] | None = None,
    device: str = "auto",
    on_epoch: Callable[[EpochReport], None] | None = None,
    on_resume: Callable[[str], None] | None = None,
) -> list[FinishedRun]:
    """The runs of all seeds of an experiment, trained at the same time into the folder ``out``.

    ``graphs`` are those of ``data.dataset``, loaded by name if not given; :func:`dgn.data.benchmark_from_graphs` makes
    them of your own. Directions and structural encodings are added. Seeds (by default those of the experiment) that are
    finished in the folder are not trained again, unfinished ones are resumed. :func:`dgn.load_model` loads
    ``out/seed-N``. ``on_epoch`` is called after every epoch of every seed.
    """
    out, seeds = Path(out), experiment.training.seeds if seeds is None else seeds
    is_begun(out, experiment)
    done = finished_runs(out)
    missing = [seed for seed in seeds if seed not in done]
    if missing:
        benchmark = load.load_graphs(experiment) if graphs is None else load.add_inputs(graphs, experiment)
        write_experiment(out, experiment)
        train_missing(experiment, benchmark, missing, out, device, on_epoch, on_resume)
        done = finished_runs(out)
    return [done[seed] for seed in seeds]


def train_missing(
    experiment: Experiment,
    benchmark: Benchmark,
    seeds: Sequence[int],
    out: Path,
    device: str = "auto",
    on_epoch: Callable[[EpochReport], None] | None = None,
    on_resume: Callable[[str], None] | None = None,
) -> None:
    """Train seeds and write their results, also those of seeds that finished before another failed."""
    failure = None
    try:
        results = trainer.train(experiment, benchmark, seeds, out, device, on_epoch, on_resume=on_resume)
    except TrainingError as problem:
        results, failure = problem.results, problem
    for result in results:
        write_run(out, FinishedRun.of(experiment, result, benchmark.note, seeds), result.history)
    if failure is not None:
        raise failure
