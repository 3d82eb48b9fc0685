"""Versions and commits."""

import subprocess
from pathlib import Path

import pytest
import torch

from dgn.training.versions import collect_versions, find_commit


def test_versions_are_those_of_what_runs() -> None:
    assert collect_versions()["torch"] == torch.__version__


def test_the_commit_of_a_checkout_and_of_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    (folder / "a").write_text("1")
    assert find_commit(folder) is None
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    try:
        subprocess.run([*git, "init", "-q"], check=True)
    except OSError:
        pytest.skip("git is not installed")
    assert find_commit(folder) is None  # nothing committed yet
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    commit = find_commit(folder)
    assert commit is not None
    assert len(commit) == 12
    (folder / "a").write_text("2")
    assert find_commit(folder) == commit + "+"
