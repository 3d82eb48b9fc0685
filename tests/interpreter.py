"""Kernels for a GPU, tested on one or, where there is none, in Triton's interpreter in a process of its own."""

import os
import subprocess
import sys

import pytest
import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
somewhere = pytest.mark.skipif(
    not INTERPRETED and not torch.cuda.is_available(), reason="needs CUDA or Triton's interpreter"
)


def check_in_interpreter(path: str, keyword: str, count: int) -> None:
    """Run the tests of a file whose names hold a keyword; so many must pass."""
    pytest.importorskip("triton")
    if INTERPRETED or torch.cuda.is_available():
        pytest.skip("they ran above")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path, "-k", keyword]
    process = subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, capture_output=True, text=True)
    assert process.returncode == 0, process.stdout[-3000:]
    assert f"{count} passed" in process.stdout
