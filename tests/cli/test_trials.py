"""Trials of a search at once: each is taken by one process, and equal ones are trained once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from typing import Any

import pytest
from rich.console import Console

from dgn.cli import trials
from dgn.search.space import read_space
from dgn.search.study import Search
from dgn.training.experiment import load_experiment

pytest.importorskip("optuna", reason="searches need optuna")
SMALL = ("training.epochs=1", "training.warmup=0", "network.hidden=4", "network.layers=1", "data.train_fraction=0.05")


def make(folder: Path, values: list[str]) -> Search:
    space = read_space({"settings": {"network.dropout": values, "network.towers": ["1", "3"]}})
    return Search(folder, load_experiment("digits/mean", ["network.hidden=8"]), space, [41])


class Work:
    """Training that waits until two are at it; notes folders."""

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.together = 0
        self.barrier = Barrier(2, timeout=0.5)

    def __call__(self, experiment: Any, folder: Path, _device: str, _prune: bool) -> trials.Outcome:
        self.folders.append(folder.name)
        try:
            self.barrier.wait()
            self.together += 1
        except BrokenBarrierError:
            self.barrier.reset()
        return trials.Outcome(1 - experiment.network.dropout, "trained")


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Threads in the place of processes."""

    @contextmanager
    def workers(_console: Any, _folder: Path, processes: int) -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(processes) as pool:
            yield pool

    found = Work()
    monkeypatch.setattr(trials, "workers", workers)
    monkeypatch.setattr(trials, "_work", found)
    return found


def test_every_trial_is_taken_once_and_some_at_the_same_time(tmp_path: Path, work: Work) -> None:
    search = make(tmp_path, ["0", "0.1", "0.2"])
    trials.run_at_once(Console(quiet=True), search, 6, "cpu", 2)
    assert sorted(work.folders) == ["trial-0", "trial-2", "trial-4"]  # three towers do not divide eight channels
    assert work.together >= 2
    assert [trial.number for trial in search.ended()] == [0, 2, 4]


def test_trials_that_were_under_way_come_first(tmp_path: Path, work: Work) -> None:
    killed = make(tmp_path, ["0", "0.1", "0.2"])
    first = killed.next(6)
    assert first is not None
    second = killed.next(6, [first.number])
    assert second is not None
    search = make(tmp_path, ["0", "0.1", "0.2"])
    trials.run_at_once(Console(quiet=True), search, 6, "cpu", 2)
    assert sorted(work.folders) == ["trial-0", "trial-2", "trial-4"]
    assert len(search.study.trials) == 6


def test_equal_values_at_the_same_time_are_trained_once(tmp_path: Path, work: Work) -> None:
    search = make(tmp_path, ["0", "0.1"])
    for _ in range(3):
        search.study.enqueue_trial({"network.dropout": "0.1", "network.towers": "1"})
    trials.run_at_once(Console(quiet=True), search, 3, "cpu", 2)
    assert work.folders == ["trial-0"]
    assert [trial.value for trial in search.study.trials] == [0.9, 0.9, 0.9]


@pytest.mark.slow
def test_processes_train(dgn: Any) -> None:
    Path("space.yaml").write_text("settings: {network.aggregators: [[mean], [max], [mean, dx1-signed]]}")
    told = ("search", "digits/mean", "--space", "space.yaml", "--trials", "3", "--out", "here", "--device", "cpu")
    done = dgn(*told, "--parallel", "2", *(word for change in SMALL for word in ("--set", change)))
    assert done.exit_code == 0, done.output
    for number in range(3):
        assert Path(f"here/trial-{number}/seed-41/result.json").exists()
        assert "epoch 1/1" in Path(f"here/trial-{number}/output.txt").read_text()
        assert f"trial {number}: validation accuracy" in done.output
    assert Path("here/best.yaml").exists()
