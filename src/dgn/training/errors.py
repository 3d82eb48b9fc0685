"""What can end a run early, said so that one knows what to do."""

from typing import Any

import torch

# Of a RuntimeError: the only sign on the CPU, and on a GPU where another than PyTorch's allocator asks for memory.
WORDS = ("can't allocate memory", "not enough memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


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
    said = isinstance(problem, RuntimeError) and any(words in str(problem) for words in WORDS)
    return said or isinstance(problem, torch.OutOfMemoryError | MemoryError)
