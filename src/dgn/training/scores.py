"""Scores over several seeds, in the units of the paper."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from dgn.data.benchmark import TASKS
from dgn.graph.checks import check_option
from dgn.training.config import Published
from dgn.training.experiment import Experiment, experiment_names, load_experiment
from dgn.training.metrics import METRICS
from dgn.training.run_folder import FinishedRun


@dataclass(frozen=True)
class Score:
    """Mean and standard deviation (n - 1 in the denominator) of a metric over seeds.

    Mean absolute errors have their own unit, all other metrics are percent.

    >>> str(Score("accuracy", (0.75, 0.77))), str(Score("mae", (0.1914,)))
    ('76.00 ± 1.41', '0.191')
    """

    metric: str
    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.values) * unit(self.metric)

    @property
    def deviation(self) -> float | None:
        return statistics.stdev(self.values) * unit(self.metric) if len(self.values) > 1 else None

    def __str__(self) -> str:
        return format_score(self.metric, self.mean, self.deviation)


def unit(metric: str) -> float:
    """The factor that converts a metric to the units of the paper."""
    return 1.0 if metric == "mae" else 100.0


def format_score(metric: str, mean: float, deviation: float | None = None) -> str:
    """A score, already in the units of the paper, as text.

    >>> format_score("mae", 0.191), format_score("roc-auc", 79.7, 0.97)
    ('0.191', '79.70 ± 0.97')
    """
    digits = 3 if metric == "mae" else 2
    return f"{mean:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")


def main_metric(experiment: Experiment) -> str:
    """The main metric of an experiment.

    >>> from dgn.training.experiment import load_experiment
    >>> main_metric(load_experiment("molpcba/tuned"))
    'average-precision'
    """
    if experiment.training.metric is not None:
        return experiment.training.metric
    if experiment.data.dataset == "own":
        raise ValueError(
            "training.metric: expected the main metric for the dataset own, got none; for example --set "
            "training.metric=mae"
        )
    check_option("data.dataset", experiment.data.dataset, (*TASKS, "own"))
    return TASKS[experiment.data.dataset].metric


def summarize(runs: Sequence[FinishedRun], split: str = "test") -> Score:
    """The score of the finished seeds of one experiment."""
    metric = main_metric(runs[0].experiment)
    return Score(metric, tuple(run.metrics[split][metric] for run in runs))


def published_score(experiment: Experiment) -> str:
    """The published score as text; a dash without one."""
    published = experiment.published
    return "-" if published is None else format_score(main_metric(experiment), published.score, published.deviation)


def is_better(metric: str, one: float, other: float) -> bool:
    """Whether the first of two values of a metric is better.

    >>> is_better("mae", 0.1, 0.2), is_better("accuracy", 0.1, 0.2)
    (True, False)
    """
    return one > other if METRICS[metric][1] else one < other


def against_paper(score: Score, published: Published | None) -> str:
    """A score compared with the published one: "better", "as good" or "worse"; empty without one.

    "As good" differs by at most two standard deviations, the published one if there is one, else that of our seeds.

    >>> [against_paper(Score("mae", (value,)), Published(score=0.168, deviation=0.003)) for value in (0.16, 0.17, 0.18)]
    ['better', 'as good', 'worse']
    """
    if published is None:
        return ""
    deviation = published.deviation if published.deviation is not None else score.deviation or 0.0
    if abs(score.mean - published.score) <= 2 * deviation:
        return "as good"
    return "better" if is_better(score.metric, score.mean, published.score) else "worse"


def changed_settings(experiment: Experiment) -> list[str]:
    """Settings in which a run differs from the shipped experiment of its name, so that the comparison does not hold.

    >>> from dgn.training.experiment import load_experiment
    >>> changed_settings(load_experiment("zinc/tuned", ["training.epochs=5"]))
    ['training.epochs']
    """
    if experiment.published is None or experiment.name not in experiment_names():
        return []
    return [key for key in experiment.differences(load_experiment(experiment.name)) if key != "data.path"]
