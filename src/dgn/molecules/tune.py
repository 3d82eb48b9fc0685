"""Hyperparameter search for a table, on its validation split."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from dgn.data.benchmark import Benchmark
from dgn.training.devices import free_memory
from dgn.training.errors import DivergedError, OutOfMemoryError
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.run import EpochReport
from dgn.training.trainer import train
from dgn.tuning.space import Range, Space, Value, read_space
from dgn.tuning.study import Search, Trial

SEEDS = 2  # per trial: the score of one is too noisy
SETTINGS: dict[str, Any] = {
    "network.hidden": {"low": "24", "high": "96", "step": "4"},
    "network.num_layers": {"low": "2", "high": "6"},
    "network.aggregators": [
        "[mean, dx1]", "[mean, dx1, dx2]", "[mean, max, dx1]", "[mean, max, min, dx1, av1]",
        "[mean, max, min, dx1, dx2]", "[sum, mean, max, dx1]",
    ],
    "network.readout": ["mean", "sum", "sum-mean"],
    "network.dropout": {"low": "0.0", "high": "0.4", "step": "0.05"},
    "training.learning_rate": {"low": "5e-4", "high": "1e-2", "log": "true"},
}  # fmt: skip


class BestTrial(NamedTuple):
    """The experiment with the best settings, its folder, and a row for every trial with a score."""

    experiment: Experiment
    folder: Path
    trials: list[dict[str, Value]]


def choose_settings(
    experiment: Experiment,
    benchmark: Benchmark,
    trials: int,
    folder: Path,
    device: str = "auto",
    on_epoch: Callable[[EpochReport], None] | None = None,
    echo: Callable[[str], None] | None = None,
) -> BestTrial:
    """The best of ``trials`` settings, by the mean validation score of two networks; the first are the defaults.

    An interrupted search resumes in its folder. Trials that diverge or run out of memory have no score.
    """
    echo = echo or (lambda _: None)
    experiment = read_experiment(experiment.to_dict(), [f"training.metric={benchmark.metric}"])
    space = read_space({"settings": SETTINGS})
    search = Search(folder, experiment, space, experiment.training.seeds[:SEEDS], experiment.training.seeds[0])
    search.study.enqueue_trial(current_values(experiment, space), skip_if_exists=True)
    before = len(search.ended())
    if before:
        echo(f"resuming after {before} of {trials} trials")
    while (trial := search.next(trials)) is not None:
        echo(f"trial {trial.number + 1} of {trials}: {describe(trial.values)}")
        score = _score(search, trial, benchmark, device, on_epoch, echo)
        search.tell(trial, score)
        if score is not None:
            echo(f"  validation {search.metric} {score:.4f}")
    ended = search.ended()
    if not ended:
        raise RuntimeError(f"{folder}: expected a trial with a score, got none; see the errors above")
    echo(f"best on the validation split: {describe(ended[0].values)}")
    scores = {
        frozen.number: frozen.value for frozen in search.study.get_trials(deepcopy=False) if frozen.value is not None
    }
    rows = [{"trial": trial.number, f"val {search.metric}": scores[trial.number], **trial.values} for trial in ended]
    best = replace(search.resolve(ended[0]), name=experiment.name)
    best = replace(best, training=replace(best.training, seeds=experiment.training.seeds))
    return BestTrial(best, ended[0].folder, rows)


def current_values(experiment: Experiment, space: Space) -> dict[str, Value]:
    """The values of an experiment for the settings of a search space, in its notation."""
    config = experiment.to_dict()
    values: dict[str, Value] = {}
    for name, domain in space.domains.items():
        section, _, key = name.partition(".")
        value = config[section][key]
        text = f"[{', '.join(value)}]" if isinstance(value, list | tuple) else str(value)
        values[name] = value if isinstance(domain, Range) else text
    return values


def describe(values: dict[str, Value]) -> str:
    """Settings as a phrase.

    >>> describe({"network.hidden": 48, "training.learning_rate": 0.00123456})
    'hidden 48, learning_rate 0.00123'
    """
    items = ((name.partition(".")[2], value) for name, value in values.items())
    return ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in items)


def _score(
    search: Search,
    trial: Trial,
    benchmark: Benchmark,
    device: str,
    on_epoch: Callable[[EpochReport], None] | None,
    echo: Callable[[str], None],
) -> float | None:
    try:
        results = train(search.resolve(trial), benchmark, search.seeds, trial.folder, device, on_epoch, on_resume=echo)
    except (DivergedError, OutOfMemoryError) as problem:
        echo(f"  no score: {problem}")
        return None
    finally:
        free_memory()
    return fmean(result.metrics["val"][search.metric] for result in results)
