"""Logs for TensorBoard: every epoch of a seed once, however often the run was stopped."""

import sys
from pathlib import Path
from typing import Any

import pytest

from dgn.training.event_log import event_log
from dgn.training.run import EpochReport
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

pytest.importorskip("tensorboard", reason="logs are those of TensorBoard, the extra logs")


def logged(folder: Path, name: str) -> list[tuple[int, float]]:
    """The points that TensorBoard shows."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder))
    events.Reload()
    return [(point.step, round(point.value, 5)) for point in events.Scalars(name)]


def test_the_epochs_of_each_seed(tmp_path: Path) -> None:
    reports: list[EpochReport] = []
    with event_log(tmp_path / "logs") as log:

        def on_epoch(report: EpochReport) -> None:
            reports.append(report)
            log(report)

        train(make_experiment(), make_benchmark("regression"), [7, 8], None, "cpu", on_epoch)
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["seed-7", "seed-8"]
    for seed in (7, 8):
        expected = [(one.epoch, one) for one in reports if one.seed == seed]
        folder = tmp_path / "logs" / f"seed-{seed}"
        assert logged(folder, "loss/train") == [(epoch, round(one.train_loss, 5)) for epoch, one in expected]
        assert logged(folder, "val/mae") == [(epoch, round(one.metrics["mae"], 5)) for epoch, one in expected]
        assert len(logged(folder, "learning_rate")) == len(logged(folder, "loss/val")) == len(expected) > 1


def report(epoch: int, loss: float) -> EpochReport:
    return EpochReport(0, epoch, 9, 1e-3, loss, loss, {"mae": loss}, 1.0, 1.0)


def test_a_resumed_run_has_every_epoch_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(1_000, 2_000))
    monkeypatch.setattr("time.time", lambda: float(next(seconds)))  # the names of the files are in order of time
    for start, end, loss in ((1, 6, 1.0), (4, 8, 2.0)):  # stopped after 6 epochs, of which 3 were in the checkpoint
        with event_log(tmp_path) as log:
            for epoch in range(start, end + 1):
                log(report(epoch, loss))
    assert logged(tmp_path / "seed-0", "loss/val") == [(n, 1.0) for n in (1, 2, 3)] + [(n, 2.0) for n in range(4, 9)]


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with event_log(None) as log:
        log(report(1, 1.0))
    assert not list(tmp_path.iterdir())


def test_logs_of_the_commands(dgn: Any) -> None:
    pytest.importorskip("rdkit", reason="SMILES are read by RDKit, the extra molecules")
    Path("t.csv").write_text("smiles,y\n" + "".join(f"{'C' * n}O,{n}\n" for n in range(1, 25)))
    quick = ("--ensemble-size", "2", "--epochs", "2", "--device", "cpu", "--logs", "logs")
    done = dgn("fit", "t.csv", *quick)
    assert done.exit_code == 0, done.output
    assert [step for step, _ in logged(Path("logs/seed-1"), "val/mae")] == [1, 2]
    assert "logs" not in Path("t-model/settings.yaml").read_text()
    many = dgn("fit", "t.csv", *quick, "--replicates", "2", "--split", "random", "--out", "many")
    assert many.exit_code == 0, many.output
    assert sorted(path.name for path in Path("logs/replicate-2").iterdir()) == ["seed-1000", "seed-1001"]
    refused = dgn("fit", "t.csv", *quick, "--search", "2", "--out", "other")
    assert "logs: expected no --search beside it" in refused.output.replace("\n", "")


def test_logs_of_training(dgn: Any, training: Any) -> None:  # noqa: ARG001, no real one
    assert dgn("train", "zinc/tuned", "--seeds", "41", "--device", "cpu", "--logs", "logs").exit_code == 0
    assert logged(Path("logs/seed-41"), "loss/train") == [(1, 1.0), (2, 0.5)]
    assert dgn("train", "--seeds", "41", "--device", "cpu", "--logs", "digits-logs").exit_code == 0
    assert len(list(Path("digits-logs").glob("*/seed-41"))) == 4


def test_the_extra_is_named(dgn: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)
    refused = dgn("train", "zinc/tuned", "--logs", "logs").output.replace("\n", "")
    assert "logs: expected the package tensorboard" in refused
    assert "the extra 'logs'" in refused
