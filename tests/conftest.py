"""The command line with a fake training loop, and finished runs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from dgn.cli import make_app
from dgn.training.errors import DivergedError
from dgn.training.experiment import Experiment, load_experiment
from dgn.training.run import EpochReport, RunResult
from dgn.training.run_folder import FinishedRun
from dgn.training.scores import main_metric
from reproduce.__main__ import make_app as make_reproduce_app

Invoke = Callable[..., Result]
MakeRun = Callable[..., FinishedRun]
EPOCHS = 2


class FakeTraining:
    """Scores are functions of the seed; ``calls`` records names and seeds; the seed ``failing`` diverges."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.failing: int | None = None
        self.interrupt = False

    def __call__(
        self, experiment: Experiment, benchmark: Any, seeds: Sequence[int], out: Path, device: str,
        on_epoch: Callable[[EpochReport], None], on_resume: Callable[[str], None],
    ) -> list[RunResult]:  # fmt: skip
        self.calls.append((experiment.name, list(seeds)))
        assert device == "cpu"
        for seed in seeds:
            if (out / f"seed-{seed}").exists():
                on_resume(f"seed {seed}: resuming")
            (out / f"seed-{seed}").mkdir(exist_ok=True)
        if self.interrupt:
            raise KeyboardInterrupt
        results = [self.result(seed, benchmark.metric, on_epoch) for seed in seeds if seed != self.failing]
        if self.failing in seeds:
            raise DivergedError("loss: expected a number, got nan", results)
        return results

    @staticmethod
    def result(seed: int, metric: str, on_epoch: Callable[[EpochReport], None]) -> RunResult:
        history: list[dict[str, float]] = []
        for epoch in range(1, EPOCHS + 1):
            on_epoch(EpochReport(seed, epoch, EPOCHS, 1e-3, 1 / epoch, 2 / epoch, {metric: 0.5}, float(epoch), 100.0))
            history.append({"epoch": epoch, "train_loss": 1 / epoch, "val_loss": 2 / epoch, metric: 0.5})
        metrics = {split: {metric: seed / 100} for split in ("train", "val", "test")}
        return RunResult(seed, 1234, EPOCHS, 20, 3.0, "all epochs done", metrics, history, "cpu")


@pytest.fixture
def training(monkeypatch: pytest.MonkeyPatch) -> FakeTraining:
    """No training, and fake datasets."""
    fake = FakeTraining()
    monkeypatch.setattr("dgn.training.trainer.train", fake)
    zinc, digits = SimpleNamespace(metric="mae", note="made up"), SimpleNamespace(metric="accuracy", note="")
    monkeypatch.setattr(
        "dgn.training.load.load_graphs", lambda experiment, *_: digits if experiment.data.dataset == "digits" else zinc
    )
    monkeypatch.setattr("dgn.cli.train.draw_misread", lambda *_: None)  # there is no model
    monkeypatch.setattr("dgn.training.devices.free_memory", lambda: None)  # garbage of a test process takes seconds
    return fake


@pytest.fixture
def dgn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Invoke:
    """Run a command in an empty folder, on a terminal wide enough for every line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    return lambda *arguments: CliRunner().invoke(make_app(), arguments)


@pytest.fixture
def reproduce(dgn: Invoke) -> Invoke:  # noqa: ARG001, for the same folder and terminal
    """Run a command of ``python -m reproduce``."""
    return lambda *arguments: CliRunner().invoke(make_reproduce_app(), arguments)


@pytest.fixture
def make_run() -> MakeRun:
    def make(name: str = "zinc/tuned", seed: int = 41, test: float = 0.17, **changed: Any) -> FinishedRun:
        metric = main_metric(load_experiment(name))
        fields = {
            "parameters": 98_035, "epochs": 3, "steps": 24, "seconds": 1.5, "stopped": "done", "device": "cpu",
            "data": "", "metrics": {"val": {metric: 0.2}, "test": {metric: test}}, "versions": {"dgn": "0"},
        }  # fmt: skip
        return FinishedRun(experiment=load_experiment(name), seed=seed, **fields | changed)

    return make
