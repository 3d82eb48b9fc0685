"""The entry point."""

import os
import subprocess
import sys
from typing import Any

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
    assert "directions" in done.stdout


def test_help_says_where_to_begin_and_breaks_lines_by_the_terminal(dgn: Any) -> None:
    assert "dgn fit TABLE, then dgn predict" in dgn("--help").output
    for verb in ("fit", "predict", "draw", "train"):
        assert f"For example: dgn {verb} " in dgn(verb, "--help").output
    # On 160 columns the line goes on behind the end of the first line of the docstring.
    (line,) = (line for line in dgn("predict", "--help").output.splitlines() if "a conformal interval" in line)
    assert "Rows that cannot be read" in line


def test_characters_that_a_terminal_lacks_do_not_end_a_command() -> None:
    asked = [sys.executable, "-m", "dgn", "info", "zinc/tuned"]
    done = subprocess.run(asked, capture_output=True, env={**os.environ, "PYTHONIOENCODING": "ascii"}, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"0.168 ? 0.003" in done.stdout


def test_what_the_system_refuses_is_told_in_words(dgn: Any, tmp_path: Any) -> None:
    (tmp_path / "file").touch()
    said = dgn("draw", "CCO", "--out", str(tmp_path / "file" / "a.svg"))
    assert said.exit_code == 1
    assert "file: expected a place that can be read and written, got '" in said.stderr.replace("\n", "")
