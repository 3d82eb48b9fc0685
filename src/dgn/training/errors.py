"""What can end a run early, said so that one knows what to do."""

from typing import Any

import torch

CPU_WORDS = ("can't allocate memory", "not enough memory")  # of a RuntimeError, the only sign that PyTorch gives there


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


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether an error says that memory ran out, on a GPU or on the CPU.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    (True, True)
    """
    said = isinstance(problem, RuntimeError) and any(words in str(problem) for words in CPU_WORDS)
    return said or isinstance(problem, torch.OutOfMemoryError | MemoryError)
