"""Kernels compiled ahead by processes that try networks."""

import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dgn.cli.warming import warming_up
from dgn.training.experiment import load_experiment


def write_molecules(path: Path, count: int = 60) -> None:
    """Paths of three atoms, in the form of the packed ZINC."""
    ends = np.array([[0, 1, 1, 2], [1, 0, 2, 1]], np.uint8)
    np.savez(
        path,
        node_ptr=3 * np.arange(count + 1),
        edge_ptr=4 * np.arange(count + 1),
        edge_index=np.tile(ends, count),
        x=np.zeros(3 * count, np.uint8),
        edge_attr=np.ones(4 * count, np.uint8),
        y=np.linspace(0, 1, count, dtype=np.float32),
        split=np.repeat(np.array([0, 1, 2], np.uint8), count // 3),
    )


@pytest.mark.slow
def test_networks_are_tried_once_each_and_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGN_CACHE", str(tmp_path / "cache"))
    write_molecules(tmp_path / "zinc12k.npz")
    small = ["network.hidden=4", "network.layers=1", f"data.path={tmp_path}"]
    names = ("zinc/simple/mean", "zinc/simple/mean-dx1", "zinc/simple/mean")
    with warming_up([load_experiment(name, small) for name in names], 4, "cpu") as processes:
        assert [process.wait(100) for process in processes] == [0, 0]
    assert {path.name for path in tmp_path.iterdir()} == {"zinc12k.npz", "cache"}


def test_processes_end_with_what_is_done_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    sleeping = subprocess.Popen(["sleep", "100"])
    monkeypatch.setattr("dgn.cli.warming._start", lambda *_: sleeping)
    with warming_up([load_experiment("zinc/tuned")], 1, "cpu"):
        assert sleeping.poll() is None
    assert sleeping.poll() is not None


def test_the_cells_left_but_the_first_are_tried(dgn: Any, training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    @contextmanager
    def pretended(experiments: Any, processes: int, _device: str) -> Any:
        tried.append(([each.name for each in experiments], processes))
        yield []

    monkeypatch.setattr("dgn.cli.warming.warming_up", pretended)
    cells = ("reproduce", "table1", "--dataset", "zinc", "--seeds", "41", "--device", "cpu", "--no-curves")
    dgn(*cells, "--rows", "simple/mean")
    assert not tried
    assert dgn(*cells, "--rows", "mean", "--ahead", "3").exit_code == 0
    assert tried == [(["zinc/complex-e/mean"], 3)]
    assert len(training.calls) == 3
