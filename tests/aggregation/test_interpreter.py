"""Every test run checks the Triton kernels, on any machine: in Triton's interpreter, in a separate process.

Triton decides when it is imported whether it interprets or compiles, so that one process cannot do both.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="already in the interpreter")
def test_the_battery_passes_in_the_interpreter():
    pytest.importorskip("triton", reason="Triton is not installed")
    files = [str(Path(__file__).with_name(name)) for name in ("test_battery.py", "test_walks.py")]
    command = [sys.executable, "-m", "pytest", "-q", "-k", "triton", "-p", "no:cacheprovider", *files]
    ran = subprocess.run(
        command, env=os.environ | {"TRITON_INTERPRET": "1"}, capture_output=True, text=True, timeout=600
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    passed = re.search(r"(\d+) passed", ran.stdout)
    assert passed is not None, ran.stdout[-2000:]
    assert int(passed[1]) >= 60
