"""Trials of a search: a failure affects one trial; in parallel, each trial runs once, equal ones share a run."""

import gc
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Barrier, BrokenBarrierError
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from dgn.cli import search_runner
from dgn.training.experiment import load_experiment
from dgn.tuning.space import read_space
from dgn.tuning.study import Search

pytest.importorskip("optuna", reason="searches need optuna")
SMALL = (
    "training.epochs=1",
    "training.warmup=0",
    "network.hidden=4",
    "network.num_layers=1",
    "data.train_fraction=0.05",
)


def make(folder: Path, values: list[str]) -> Search:
    space = read_space({"settings": {"network.dropout": values, "network.towers": ["1", "3"]}})
    return Search(folder, load_experiment("digits/mean", ["network.hidden=8"]), space, [41])


class Work:
    """Fake training that waits until two run in parallel, and records their folders."""

    def __init__(self) -> None:
        self.folders: list[str] = []
        self.together = 0
        self.barrier = Barrier(2, timeout=0.5)

    def __call__(self, experiment: Any, folder: Path, _device: str, _prune: bool) -> search_runner.Outcome:
        self.folders.append(folder.name)
        try:
            self.barrier.wait()
            self.together += 1
        except BrokenBarrierError:
            self.barrier.reset()
        return search_runner.Outcome(1 - experiment.network.dropout, "trained")


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    """Threads instead of processes."""

    @contextmanager
    def workers(_console: Any, _folder: Path, processes: int) -> Iterator[ThreadPoolExecutor]:
        with ThreadPoolExecutor(processes) as pool:
            yield pool

    work = Work()
    monkeypatch.setattr(search_runner, "workers", workers)
    monkeypatch.setattr(search_runner, "_run_in_worker", work)
    return work


def test_every_trial_runs_once_and_some_in_parallel(tmp_path: Path, work: Work) -> None:
    search = make(tmp_path, ["0", "0.1", "0.2"])
    search_runner.run_in_parallel(Console(quiet=True), search, 6, "cpu", 2)
    assert sorted(work.folders) == ["trial-0", "trial-2", "trial-4"]  # three towers do not divide eight channels
    assert work.together >= 2
    assert [trial.number for trial in search.ended()] == [0, 2, 4]


def test_interrupted_trials_come_first(tmp_path: Path, work: Work) -> None:
    killed = make(tmp_path, ["0", "0.1", "0.2"])
    first = killed.next(6)
    assert first is not None
    second = killed.next(6, [first.number])
    assert second is not None
    search = make(tmp_path, ["0", "0.1", "0.2"])
    search_runner.run_in_parallel(Console(quiet=True), search, 6, "cpu", 2)
    assert sorted(work.folders) == ["trial-0", "trial-2", "trial-4"]
    assert len(search.study.trials) == 6


def test_parallel_trials_with_equal_values_are_trained_once(tmp_path: Path, work: Work) -> None:
    search = make(tmp_path, ["0", "0.1"])
    for _ in range(3):
        search.study.enqueue_trial({"network.dropout": "0.1", "network.towers": "1"})
    search_runner.run_in_parallel(Console(quiet=True), search, 3, "cpu", 2)
    assert work.folders == ["trial-0"]
    assert [trial.value for trial in search.study.trials] == [0.9, 0.9, 0.9]


def test_a_worker_that_dies_affects_only_its_trial(tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(experiment: Any, folder: Path, *args: Any) -> search_runner.Outcome:
        if folder.name == "trial-0":
            raise RuntimeError("process: expected a result")
        return work(experiment, folder, *args)

    monkeypatch.setattr(search_runner, "_run_in_worker", lose)
    search = make(tmp_path, ["0", "0.1", "0.2"])
    search_runner.run_in_parallel(Console(quiet=True), search, 6, "cpu", 2)
    assert [trial.number for trial in search.ended()] == [2, 4]
    assert search.next(6) is None


def test_missing_data_end_the_workers(tmp_path: Path, work: Work, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> search_runner.Outcome:
        raise FileNotFoundError("digits: expected a file")

    monkeypatch.setattr(search_runner, "_run_in_worker", fail)
    search = make(tmp_path, ["0", "0.1"])
    with pytest.raises(FileNotFoundError, match="expected a file"):
        search_runner.run_in_parallel(Console(quiet=True), search, 4, "cpu", 2)
    assert not work.folders
    assert search.next(4) is not None  # to resume with


@pytest.mark.usefixtures("work")
def test_graphs_are_loaded_before_workers_need_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[int] = []
    trained: list[int] = []

    def load(experiment: Any, progress: bool = False) -> Any:  # noqa: ARG001
        if experiment.data.rwse_steps == 5:
            raise ValueError("rwse_steps: expected another")
        loaded.append(experiment.data.rwse_steps)
        return SimpleNamespace()

    def train(experiment: Any, *_: Any) -> search_runner.Outcome:
        assert experiment.data.rwse_steps in loaded
        trained.append(experiment.data.rwse_steps)
        return search_runner.Outcome(1.0, "trained")

    monkeypatch.setattr("dgn.training.load.load_graphs", load)
    monkeypatch.setattr(search_runner, "_run_in_worker", train)
    space = read_space({"settings": {"training.weight_decay": ["0", "1e-3"], "data.rwse_steps": ["0", "4", "5"]}})
    search = Search(tmp_path, load_experiment("digits/mean"), space, [41])
    search_runner.run_in_parallel(Console(quiet=True), search, 6, "cpu", 2)
    assert loaded == [0, 4]  # once, though trials alternate
    assert sorted(trained) == [0, 0, 4, 4]
    search_runner.run_in_parallel(Console(quiet=True), search, 6, "cpu", 2)
    assert loaded == [0, 4]  # none when no trial is left


@pytest.mark.parametrize("run", [search_runner.run_sequentially, search_runner.run_in_parallel])
def test_an_error_of_every_trial_fails_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    search = make(tmp_path, ["0", "0.1"])
    args = (Console(quiet=True), search, 4)
    with pytest.raises(ValueError, match="device: expected auto"):
        run(*args, "gpu", 2)

    def damaged(*_: Any, **__: Any) -> Any:
        raise ValueError("digits: expected checksum 1, got another")

    monkeypatch.setattr("dgn.training.load.load_graphs", damaged)
    with pytest.raises(ValueError, match="expected checksum 1"):
        run(*args, "cpu", 2)
    assert [trial.state.name for trial in search.study.trials] == ["RUNNING"]


class Cycle:
    """A reference cycle, as of a network in training."""

    def __init__(self) -> None:
        self.itself = self


def test_the_memory_of_a_trial_is_freed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    references: list[weakref.ref[Cycle]] = []

    def train(*_: Any, **__: Any) -> Any:
        assert all(reference() is None for reference in references)
        network = Cycle()
        references.append(weakref.ref(network))
        raise ValueError("augmentation.resample: expected eigenvectors")

    monkeypatch.setattr("dgn.training.trainer.train", train)
    monkeypatch.setattr("dgn.training.load.load_graphs", lambda *_: SimpleNamespace(metric="accuracy", note=""))
    gc.disable()  # so that none is collected by chance
    try:
        search = make(tmp_path, ["0", "0.1"])
        search_runner.run_sequentially(Console(quiet=True), search, 4, "cpu")
        assert references[-1]() is None
        experiment = load_experiment("digits/mean")
        assert search_runner._run_in_worker(experiment, tmp_path / "own", "cpu", False).message.startswith(
            "augmentation.resample"
        )
        assert references[-1]() is None
    finally:
        gc.enable()
    assert len(references) == 3
    assert [trial.state.name for trial in search.study.trials] == ["FAIL"] * 4


def test_a_lost_device_ends_the_search_but_not_again_at_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any, **__: Any) -> Any:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr("dgn.training.trainer.train", lost)
    monkeypatch.setattr("dgn.training.load.load_graphs", lambda *_: SimpleNamespace(metric="accuracy", note=""))
    monkeypatch.setattr("dgn.training.devices.free_memory", lost)
    search = make(tmp_path, ["0", "0.1"])
    for states in (["FAIL"], ["FAIL"] * 3):  # the second is invalid: three towers
        with pytest.raises(RuntimeError, match="illegal memory access"):
            search_runner.run_sequentially(Console(quiet=True), search, 4, "cpu")
        assert [trial.state.name for trial in search.study.trials] == states
    with pytest.raises(RuntimeError, match="illegal memory access"):  # so that the worker is replaced
        search_runner._run_in_worker(load_experiment("digits/mean"), tmp_path / "own", "cpu", False)


@pytest.mark.slow
def test_workers_train(dgn: Any) -> None:
    Path("space.yaml").write_text("settings: {network.aggregators: [[mean], [max], [mean, dx1-signed]]}")
    command = ("search", "digits/mean", "--space", "space.yaml", "--trials", "3", "--out", "here", "--device", "cpu")
    done = dgn(*command, "--parallel", "2", *(arg for change in SMALL for arg in ("--set", change)))
    assert done.exit_code == 0, done.output
    for index in range(3):
        assert Path(f"here/trial-{index}/seed-41/result.json").exists()
        assert "epoch 1/1" in Path(f"here/trial-{index}/output.txt").read_text()
        assert f"trial {index}: validation accuracy" in done.output
    assert Path("here/best.yaml").exists()
