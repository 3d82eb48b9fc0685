"""The entry point."""

import os
import subprocess
import sys
from typing import Any

import pytest

import dgn.cli


def test_idle_threads_sleep_unless_configured_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert "directions" in done.stdout


def test_help_gives_examples_and_wraps_to_the_terminal(dgn: Any) -> None:
    assert "dgn fit TABLE, then dgn predict" in dgn("--help").output
    for command in ("fit", "predict", "draw", "train"):
        assert f"For example: dgn {command} " in dgn(command, "--help").output
    # On 160 columns the paragraph is wrapped later than in the docstring.
    (line,) = (
        line for line in dgn("predict", "--help").output.splitlines() if "standard deviation over the ensemble" in line
    )
    assert "a conformal interval" in line


def test_characters_that_a_terminal_cannot_encode_are_replaced() -> None:
    command = [sys.executable, "-m", "dgn", "info", "zinc/tuned"]
    done = subprocess.run(command, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"0.168 ? 0.003" in done.stdout


def test_errors_of_the_operating_system_name_the_path(dgn: Any, tmp_path: Any) -> None:
    failed = dgn("draw", "CCO", "--out", str(tmp_path / f"{'a' * 300}.svg"))
    assert failed.exit_code == 1
    assert "a.svg: expected a path that can be read and written, got '" in failed.stderr.replace("\n", "")
