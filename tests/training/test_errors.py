"""Errors that end a run early: memory that ran out is known by what is said of it."""

import pytest

from dgn.training.errors import is_out_of_memory


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
        "Triton Error [CUDA]: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ],
)
def test_memory_of_a_gpu_runs_out_in_many_words(message: str) -> None:
    assert is_out_of_memory(RuntimeError(message))


@pytest.mark.parametrize(
    "message",
    ["out of resource: shared memory, Required: 262144", "CUDA error: an illegal memory access was encountered"],
)
def test_other_errors_that_speak_of_memory_are_others(message: str) -> None:
    assert not is_out_of_memory(RuntimeError(message))
