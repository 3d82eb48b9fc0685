"""The training queue: unfinished cells, and the size limit of the archive."""

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dgn.training.checkpoint import save_checkpoint
from dgn.training.experiment import load_experiment
from dgn.training.run import RunResult
from dgn.training.run_folder import FinishedRun, write_run
from reproduce import queue

EPOCHS = [{"epoch": 1, "val_loss": 0.5}, {"epoch": 2, "val_loss": 0.25}]


def write_checkpoint(folder: Path, num_values: int) -> Path:
    file = folder / "checkpoint.safetensors"
    save_checkpoint(
        file, {"weight": torch.from_numpy(np.random.default_rng(0).random(num_values))}, {"history": EPOCHS}
    )
    return file


def finish(folder: Path, seed: int) -> None:
    result = RunResult(seed, 1, 2, 2, 1.0, "", {"test": {"mae": 0.5}}, EPOCHS, "cpu")
    write_run(folder, FinishedRun.of(load_experiment("zinc/tuned"), result, "molecules"), EPOCHS)


def names(file: Path) -> set[str]:
    with tarfile.open(file) as archive:
        return {member.name for member in archive.getmembers()}


def test_results_are_archived_first_and_checkpoints_up_to_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = Path("runs")
    finish(runs / "one", 41)
    small, middle = write_checkpoint(runs / "one/seed-95", 10_000), write_checkpoint(runs / "two/seed-1", 40_000)
    large = write_checkpoint(runs / "two/seed-2", 100_000)
    queue.pack(runs, tmp_path / "out/runs.tar.gz", limit=500_000)
    archived = names(tmp_path / "out/runs.tar.gz")
    assert {"runs/one/seed-41/result.json", str(small), str(middle)} <= archived
    assert str(large) not in archived
    assert (tmp_path / "out/runs.tar.gz").stat().st_size <= 500_000
    queue.pack(runs, tmp_path / "out/runs.tar.gz", limit=0)
    assert not any("checkpoint" in name for name in names(tmp_path / "out/runs.tar.gz"))


def test_metrics_of_unfinished_seeds_are_archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_checkpoint(Path("runs/two/seed-2"), 1)
    queue.pack(Path("runs"), Path("runs.tar.gz"), limit=0)
    with tarfile.open("runs.tar.gz") as archive:
        text = archive.extractfile("runs/two/seed-2/metrics.csv")
        assert isinstance(text, io.BufferedReader)
        assert text.read().decode().splitlines() == ["epoch,val_loss", "1,0.5", "2,0.25"]


def test_a_cell_is_finished_when_all_chosen_seeds_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queue, "RESULTS", tmp_path / "none")
    monkeypatch.setattr(queue, "load_benchmark", lambda *_: SimpleNamespace(note="molecules"))
    finish(tmp_path / "zinc/tuned", 41)

    def unfinished(*changes: str) -> list[str]:
        cells = queue.unfinished("data", tmp_path, ["zinc/tuned"], [*changes])
        return [cell.name for cell in cells if cell.name == "zinc/tuned"]

    assert unfinished("training.seeds=[41]") == []
    assert unfinished("training.seeds=[41,95]") == ["zinc/tuned"]


def test_cells_without_data_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_benchmark(dataset: str, _: str) -> SimpleNamespace:
        if dataset != "zinc":
            raise FileNotFoundError(dataset)
        return SimpleNamespace(note="molecules")

    monkeypatch.setattr(queue, "RESULTS", tmp_path / "none")
    monkeypatch.setattr(queue, "load_benchmark", load_benchmark)
    assert {cell.data.dataset for cell in queue.unfinished("data", tmp_path, [], [])} == {"zinc"}
