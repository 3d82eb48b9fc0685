"""Giving up trials that fall behind the others."""

import json
import math
from pathlib import Path
from statistics import fmean, median

from dgn.training.experiment import Experiment
from dgn.training.metrics import METRICS
from dgn.training.run import EpochReport
from dgn.training.run_folder import write_text
from dgn.training.scores import format_score, main_metric, unit

SHARES = (0.3, 0.6)  # of the epochs of a trial, after which it is held against the others
FEWEST = 5  # others, below which none is given up
FILE = "checks.json"


class TrialPruned(Exception):  # noqa: N818, as Optuna calls it
    """A trial fell behind; the text says how far."""


class Watch:
    """Hears of every epoch of a trial, and gives it up when it falls behind.

    After 30 and after 60 % of its epochs a trial is held against what all others had after the same share of theirs,
    once there are five of them: it goes on where its validation score, the mean over its seeds, is no worse than their
    median. Where the best epoch counts (``training.checkpoint``), the score is that of the best so far. Each trial
    leaves what it had in its folder, beside which those of the others stand.
    """

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder, self.metric, training = folder, main_metric(experiment), experiment.training
        self.epochs, self.seeds = training.epochs, len(training.seeds)
        self.share = {max(1, round(share * training.epochs)): str(share) for share in SHARES}
        self.scores: dict[int, list[float]] = {}

    def __call__(self, report: EpochReport) -> None:
        if report.epoch not in self.share:
            return
        scores = self.scores.setdefault(report.epoch, [])
        scores.append(report.metrics[self.metric] if report.best is None else report.best)
        if len(scores) == self.seeds and all(map(math.isfinite, scores)):  # what diverged fails by itself
            self._compare(report.epoch, fmean(scores))

    def _compare(self, epoch: int, score: float) -> None:
        share, own = self.share[epoch], self.folder / FILE
        write_text(own, json.dumps({**_read(own), share: score}))
        files = (path for path in self.folder.parent.glob(f"*/{FILE}") if path != own)
        others = [found[share] for found in map(_read, files) if share in found]
        if len(others) < FEWEST:
            return
        bar, sign = median(others), 1 if METRICS[self.metric][1] else -1
        if sign * score < sign * bar:
            mine, theirs = (format_score(self.metric, unit(self.metric) * value) for value in (score, bar))
            raise TrialPruned(
                f"given up after {epoch} of {self.epochs} epochs: validation {self.metric} {mine} there, where "
                f"the median of {len(others)} others is {theirs}"
            )


def _read(path: Path) -> dict[str, float]:
    """What a trial had after each share of its epochs."""
    found: dict[str, float] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found
