"""What can end a run early, said so that one knows what to do."""

from typing import Any


class TrainingError(RuntimeError):
    """A run that could not go on. What was finished before stays in its folder and in ``results``."""

    def __init__(self, message: str, results: list[Any] | None = None) -> None:
        super().__init__(message)
        self.results = results or []


class NoDeviceError(TrainingError):
    """The device that was asked for is not there."""


class OutOfMemoryError(TrainingError):
    """A step does not fit the memory of the device."""


class DivergedError(TrainingError):
    """The loss is no number any more."""
