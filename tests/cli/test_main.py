"""The entry point."""

import os
import subprocess
import sys

import pytest

import dgn.cli


def test_threads_sleep_while_they_wait_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(dgn.cli, "make_app", lambda: lambda: seen.append(os.environ["OMP_WAIT_POLICY"]))
    monkeypatch.setenv("OMP_WAIT_POLICY", "active")
    dgn.cli.main()
    monkeypatch.delenv("OMP_WAIT_POLICY")
    dgn.cli.main()
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert seen == ["active", "passive"]


def test_the_policy_is_set_before_pytorch_is_loaded() -> None:
    code = "import sys, dgn.cli; dgn.cli.make_app(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_python_m_dgn_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "dgn", "--help"], capture_output=True, text=True, check=True)
    assert "reproduce" in done.stdout
