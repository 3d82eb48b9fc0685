"""Settings for a table, tried out one after the other and chosen by its validation molecules."""

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

SEEDS = 2  # networks of a trial: one alone may be lucky
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


class Chosen(NamedTuple):
    """The best settings, the folder that holds what was trained with them, and a row for every trial with a score."""

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
    say: Callable[[str], None] | None = None,
) -> Chosen:
    """Try ``trials`` settings, the given ones first, and choose by the mean validation score of two networks.

    An interrupted search goes on in its folder. Settings that diverge or need too much memory have no score.
    """
    say = say or (lambda _: None)
    experiment = read_experiment(experiment.to_dict(), [f"training.metric={benchmark.metric}"])
    space = read_space({"settings": SETTINGS})
    search = Search(folder, experiment, space, experiment.training.seeds[:SEEDS], experiment.training.seeds[0])
    search.study.enqueue_trial(present_values(experiment, space), skip_if_exists=True)
    before = len(search.ended())
    if before:
        say(f"{before} of {trials} settings were tried before")
    while (trial := search.next(trials)) is not None:
        say(f"settings {trial.number + 1} of {trials}: {describe(trial.values)}")
        score = _score(search, trial, benchmark, device, on_epoch, say)
        search.tell(trial, score)
        if score is not None:
            say(f"  validation {search.metric} {score:.4f}")
    ended = search.ended()
    if not ended:
        raise RuntimeError(f"{folder}: expected settings that can be trained, got none; see why above")
    say(f"chosen by the validation molecules: {describe(ended[0].values)}")
    values = {one.number: one.value for one in search.study.get_trials(deepcopy=False) if one.value is not None}
    rows = [{"trial": one.number, f"val {search.metric}": values[one.number], **one.values} for one in ended]
    chosen = replace(search.resolve(ended[0]), name=experiment.name)
    chosen = replace(chosen, training=replace(chosen.training, seeds=experiment.training.seeds))
    return Chosen(chosen, ended[0].folder, rows)


def present_values(experiment: Experiment, space: Space) -> dict[str, Value]:
    """What an experiment says of the settings of a space, as the space writes them."""
    told = experiment.to_dict()
    found: dict[str, Value] = {}
    for name, domain in space.domains.items():
        section, _, key = name.partition(".")
        value = told[section][key]
        text = f"[{', '.join(value)}]" if isinstance(value, list | tuple) else str(value)
        found[name] = value if isinstance(domain, Range) else text
    return found


def describe(values: dict[str, Value]) -> str:
    """Settings in words.

    >>> describe({"network.hidden": 48, "training.learning_rate": 0.00123456})
    'hidden 48, learning_rate 0.00123'
    """
    parts = ((name.partition(".")[2], value) for name, value in values.items())
    return ", ".join(f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}" for name, value in parts)


def _score(
    search: Search,
    trial: Trial,
    benchmark: Benchmark,
    device: str,
    on_epoch: Callable[[EpochReport], None] | None,
    say: Callable[[str], None],
) -> float | None:
    try:
        results = train(search.resolve(trial), benchmark, search.seeds, trial.folder, device, on_epoch, on_resume=say)
    except (DivergedError, OutOfMemoryError) as problem:
        say(f"  no score: {problem}")
        return None
    finally:
        free_memory()
    return fmean(result.metrics["val"][search.metric] for result in results)
