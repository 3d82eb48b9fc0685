"""Errors that end a run early, with their remedies."""

from typing import Any

import torch

# Texts of a RuntimeError: the only sign on the CPU, and on a GPU outside of PyTorch's allocator.
MESSAGES = ("can't allocate memory", "not enough memory", "out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


class TrainingError(RuntimeError):
    """A run that failed. Seeds that finished before stay in its folder and in ``results``."""

    def __init__(self, message: str, results: list[Any] | None = None) -> None:
        super().__init__(message)
        self.results = results or []


class NoDeviceError(TrainingError):
    """The requested device does not exist."""


class OutOfMemoryError(TrainingError):
    """A step does not fit the memory of the device."""


class DivergedError(TrainingError):
    """The loss is not finite."""


def is_out_of_memory(problem: BaseException) -> bool:
    """Whether an error means that memory ran out, on a GPU or on the CPU.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
    (True, True)
    """
    matches = isinstance(problem, RuntimeError) and any(message in str(problem) for message in MESSAGES)
    return matches or isinstance(problem, torch.OutOfMemoryError | MemoryError)
