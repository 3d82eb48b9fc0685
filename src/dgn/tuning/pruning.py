"""Median pruning of trials."""

import json
import math
from pathlib import Path
from statistics import fmean, median

from dgn.training.experiment import Experiment
from dgn.training.metrics import METRICS
from dgn.training.run import EpochReport
from dgn.training.run_folder import write_text
from dgn.training.scores import format_score, main_metric, unit

SHARES = (0.3, 0.6)  # fractions of the epochs of a trial after which it is compared with the others
FEWEST = 5  # other trials, below which none is pruned
FILE = "checks.json"


class TrialPruned(Exception):  # noqa: N818, as Optuna calls it
    """A trial was pruned; the message has its score and the median."""


class Watch:
    """An epoch callback that prunes a trial whose validation score is worse than the median of the others.

    After 30 and after 60 % of its epochs, the score of a trial, the mean over its seeds, is compared with the scores of
    the others after the same fraction of theirs, once there are five. With ``training.checkpoint: best`` it is the best
    score so far. Each trial writes its scores to its folder, next to the folders of the others.
    """

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder, self.metric, training = folder, main_metric(experiment), experiment.training
        self.epochs, self.seeds = training.epochs, len(training.seeds)
        self.fractions = {max(1, round(share * training.epochs)): str(share) for share in SHARES}
        self.scores: dict[int, list[float]] = {}

    def __call__(self, report: EpochReport) -> None:
        if report.epoch not in self.fractions:
            return
        scores = self.scores.setdefault(report.epoch, [])
        scores.append(report.metrics[self.metric] if report.best is None else report.best)
        if len(scores) == self.seeds and all(map(math.isfinite, scores)):  # a diverged trial fails by itself
            self._compare(report.epoch, fmean(scores))

    def _compare(self, epoch: int, score: float) -> None:
        fraction, path = self.fractions[epoch], self.folder / FILE
        write_text(path, json.dumps({**_read(path), fraction: score}))
        files = (other for other in self.folder.parent.glob(f"*/{FILE}") if other != path)
        others = [scores[fraction] for scores in map(_read, files) if fraction in scores]
        if len(others) < FEWEST:
            return
        threshold, sign = median(others), 1 if METRICS[self.metric][1] else -1
        if sign * score < sign * threshold:
            shown, expected = (format_score(self.metric, unit(self.metric) * value) for value in (score, threshold))
            raise TrialPruned(
                f"pruned after {epoch} of {self.epochs} epochs: validation {self.metric} {shown}, median of "
                f"{len(others)} others {expected}"
            )


def _read(path: Path) -> dict[str, float]:
    """The scores of a trial by fraction of its epochs."""
    scores: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return scores
