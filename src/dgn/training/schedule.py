"""Learning rate schedules: decay on plateau with early stopping, or cosine with warm-up."""

import math
from dataclasses import dataclass, replace

from dgn.training.config import TrainingSettings

THRESHOLD = 1e-4  # relative improvement that counts, as published


@dataclass(frozen=True)
class Schedule:
    """The immutable state of a schedule; each epoch yields a new one.

    ``rate`` is the learning rate of the next epoch, ``epoch`` its index, ``best`` the best monitored value so far and
    ``waited`` the number of epochs since. ``stopped`` is the reason why training ended, empty before.

    >>> settings = TrainingSettings(patience=0, learning_rate=1e-3, min_learning_rate=9e-4)
    >>> schedule = Schedule.start(settings)
    >>> schedule.after(1.0, settings).after(1.0, settings).stopped
    'the learning rate fell below 0.0009'
    """

    rate: float
    epoch: int = 0
    best: float = math.inf
    waited: int = 0
    stopped: str = ""

    @classmethod
    def start(cls, settings: TrainingSettings) -> "Schedule":
        return cls(settings.learning_rate if settings.schedule == "plateau" else cosine(0, settings))

    def after(self, monitored: float, settings: TrainingSettings) -> "Schedule":
        """The schedule after an epoch with the validation value ``monitored``; lower is better."""
        step = self._wait(monitored, settings) if settings.schedule == "plateau" else self
        step = replace(step, epoch=self.epoch + 1)
        if settings.schedule == "cosine":
            step = replace(step, rate=cosine(step.epoch, settings))
        elif step.rate < settings.min_learning_rate:
            step = replace(step, stopped=f"the learning rate fell below {settings.min_learning_rate:g}")
        if step.epoch >= settings.epochs and not step.stopped:
            step = replace(step, stopped=f"all {settings.epochs} epochs done")
        return step

    def extended(self, settings: TrainingSettings) -> "Schedule":
        """The schedule with more epochs: one that all had been done of continues.

        >>> few, more = (TrainingSettings(epochs=epochs) for epochs in (1, 2))
        >>> Schedule.start(few).after(1.0, few).extended(more).stopped
        ''
        """
        is_done = self.stopped.startswith("all ") and self.epoch < settings.epochs
        return replace(self, stopped="") if is_done else self

    def _wait(self, monitored: float, settings: TrainingSettings) -> "Schedule":
        # Relative to the size of the best value, so that negated metrics behave alike.
        if monitored < self.best - THRESHOLD * abs(self.best) or math.isinf(self.best):
            return replace(self, best=monitored, waited=0)
        if self.waited < settings.patience:
            return replace(self, waited=self.waited + 1)
        return replace(self, rate=self.rate * settings.lr_decay_factor, waited=0)


def cosine(epoch: int, settings: TrainingSettings) -> float:
    r"""The learning rate of an epoch: linear warm-up, then half a cosine down to the minimal learning rate.

    >>> settings = TrainingSettings(schedule="cosine", epochs=3, warmup=1, learning_rate=1.0, min_learning_rate=0.0)
    >>> [round(cosine(epoch, settings), 6) for epoch in range(3)]
    [1.0, 1.0, 0.5]
    """
    if epoch < settings.warmup:
        return settings.learning_rate * (epoch + 1) / settings.warmup
    progress = (epoch - settings.warmup) / max(1, settings.epochs - settings.warmup)
    span = settings.learning_rate - settings.min_learning_rate
    return settings.min_learning_rate + span * (1 + math.cos(math.pi * min(progress, 1))) / 2
