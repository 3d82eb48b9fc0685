"""``python -m reproduce TABLE``: every cell is trained once and printed next to the paper's."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dgn.training.scores import main_metric
from reproduce import run

CELLS = ("table1", "--dataset", "zinc", "--rows", "mean,complex/mean-dx1", "--seeds", "41,95")


@contextmanager
def threads(_console: Any, _folder: Path, processes: int) -> Iterator[ThreadPoolExecutor]:
    """Threads instead of processes."""
    with ThreadPoolExecutor(processes) as pool:
        yield pool


def test_all_cells_are_trained_and_printed_next_to_the_paper(reproduce: Any, training: Any) -> None:
    done = reproduce(*CELLS, "--device", "cpu", "--out", "here")
    assert done.exit_code == 0, done.output
    names = ["zinc/simple/mean", "zinc/complex/mean", "zinc/complex-e/mean", "zinc/complex/mean-dx1"]  # row by row
    assert training.calls == [(name, [41, 95]) for name in names]
    assert done.output.count("0.680 ± 0.382") == 8  # when a cell finishes, and in the table
    assert "data: made up" in done.output
    assert "not as published" not in done.output
    assert all(score in done.output for score in ("0.316", "0.353", "0.262", "0.233"))
    assert Path("here/zinc/complex/mean-dx1/seed-95/result.json").exists()


def test_all_datasets_of_a_table_are_trained_in_one_call(reproduce: Any, training: Any) -> None:
    done = reproduce("multi-label", "--rows", "mean,mean-dx1", "--seeds", "41", "--device", "cpu")
    names = [f"{dataset}/simple/{row}" for dataset in ("muv", "tox21") for row in ("mean", "mean-dx1")]
    assert [name for name, _ in training.calls] == names
    assert done.output.count("Multi-label") == 2
    again = reproduce("table2", "--dataset", "zinc,molhiv", "--seeds", "41", "--device", "cpu")
    assert [name for name, _ in training.calls[4:]] == ["zinc/tuned", "zinc/tuned-no-edges", "molhiv/tuned"]
    assert "paper 0.168 ± 0.003" in again.output


def test_graphs_are_loaded_once_per_dataset(reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def load(experiment: Any, _progress: bool) -> Any:
        loaded.append((experiment.data.dataset, experiment.num_directions, experiment.data.path))
        return SimpleNamespace(metric=main_metric(experiment), note="")

    monkeypatch.setattr("dgn.training.load.load_graphs", load)
    rows = ("--rows", "mean,mean-dx1,mean-dx1-dx2", "--seeds", "41", "--data", "here", "--device", "cpu")
    assert reproduce("table1", "--dataset", "zinc,molhiv", *rows).exit_code == 0
    assert len(training.calls) == 9 + 3
    here = str(Path("here").resolve())
    assert loaded == [("zinc", 2, here), ("molhiv", 2, here)]


def test_curves_are_drawn_at_the_end(reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.plot.curves.draw_curves", lambda *args: args[2].write_text(str(len(training.calls))))
    reproduce(*CELLS, "--device", "cpu", "--no-curves")
    assert not list(Path("runs").rglob("curves.png"))
    reproduce(*CELLS, "--device", "cpu")
    drawn = [path.read_text() for path in Path("runs").rglob("curves.png")]
    assert drawn == ["4"] * 4
    reproduce(*CELLS, "--device", "cpu")
    assert [path.read_text() for path in Path("runs").rglob("curves.png")] == drawn


def test_any_error_in_a_cell_is_reported_and_the_others_continue(
    reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(experiment: Any, *args: Any, **kwargs: Any) -> Any:
        if experiment.name == "zinc/complex/mean":
            raise RuntimeError("a kernel does not compile")
        return training(experiment, *args, **kwargs)

    monkeypatch.setattr("dgn.training.trainer.train", train)
    done = reproduce(*CELLS, "--device", "cpu")
    assert done.exit_code == 1
    assert len(training.calls) == 3
    assert "zinc/complex/mean: RuntimeError: a kernel does not compile" in done.stderr
    assert "Traceback" in done.stderr


def test_an_unavailable_dataset_is_tried_once(reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(experiment: Any, _progress: bool) -> Any:
        if experiment.data.dataset == "zinc":
            raise FileNotFoundError("zinc: expected a file, found nothing")
        return SimpleNamespace(metric=main_metric(experiment), note="")

    both = ("table1", "--dataset", "zinc,molhiv", "--rows", "mean,mean-dx1", "--seeds", "41")
    assert reproduce(*both[:2], "zinc", "--rows", "simple/mean-dx1", *both[-2:], "--device", "cpu").exit_code == 0
    monkeypatch.setattr("dgn.training.load.load_graphs", load)
    monkeypatch.setattr("reproduce.run.workers", threads)
    for parallel in ("1", "2"):
        done = reproduce(*both, "--device", "cpu", "--out", "runs", "--parallel", parallel)
        assert done.exit_code == 1
        assert done.stderr.count("zinc: expected a file, found nothing") == 1
        assert "zinc: other cells that are left out: 4" in done.stderr
        assert "zinc/simple/mean-dx1: 0.410" in done.output  # finished before
        assert "molhiv/simple/mean-dx1: 41.00" in done.output
        assert len(training.calls) == 3, parallel


@pytest.mark.parametrize("parallel", ["1", "2"])
def test_a_damaged_file_fails_only_its_cell(
    reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch, parallel: str
) -> None:
    def load(experiment: Any, _progress: bool) -> Any:
        if experiment.data.dataset == "molhiv":
            raise ValueError("molhiv: expected checksum 1, got another")
        return SimpleNamespace(metric=main_metric(experiment), note="")

    monkeypatch.setattr("dgn.training.load.load_graphs", load)
    monkeypatch.setattr("reproduce.run.workers", threads)
    damaged = Path("runs/zinc/simple/mean/seed-41/result.json")
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    options = ("--rows", "simple/mean,simple/mean-dx1", "--seeds", "41", "--device", "cpu", "--parallel", parallel)
    done = reproduce("table1", "--dataset", "zinc,molhiv", *options)
    assert done.exit_code == 1
    assert done.stderr.count("zinc/simple/mean: runs/zinc/simple/mean/seed-41/result.json: expected a result") == 1
    assert done.stderr.count("molhiv/simple/mean: molhiv: expected checksum 1, got another") == 1
    assert [name for name, _ in training.calls] == ["zinc/simple/mean-dx1"]
    assert "zinc/simple/mean-dx1: 0.410" in done.output


def test_a_damaged_result_of_an_absent_dataset_is_left_out(
    reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(experiment: Any, _progress: bool) -> Any:
        raise FileNotFoundError(f"{experiment.data.dataset}: expected a file, found nothing")

    monkeypatch.setattr("dgn.training.load.load_graphs", load)
    damaged = Path("runs/zinc/simple/mean-dx1/seed-41/result.json")
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    rows = ("--rows", "simple/mean,simple/mean-dx1", "--seeds", "41", "--device", "cpu")
    done = reproduce("table1", "--dataset", "zinc", *rows)
    assert (
        "zinc/simple/mean: zinc: expected a file, found nothing\nzinc: other cells that are left out: 1" in done.stderr
    )
    assert not training.calls


def test_finished_cells_are_skipped(reproduce: Any, training: Any) -> None:
    reproduce(*CELLS, "--device", "cpu")
    again = reproduce(*CELLS, "--device", "cpu")
    assert len(training.calls) == 4
    assert again.output.count("0.680 ± 0.382") == 8  # when a cell finishes, and in the table


def test_a_diverged_cell_does_not_stop_the_others(reproduce: Any, training: Any) -> None:
    training.failing = 95
    done = reproduce(*CELLS, "--device", "cpu")
    assert done.exit_code == 1
    assert len(training.calls) == 4
    assert "zinc/complex/mean-dx1: loss: expected a number, got nan" in done.stderr
    assert "0.353" in done.output


def test_an_interruption_prints_the_table(reproduce: Any, training: Any) -> None:
    training.interrupt = True
    done = reproduce(*CELLS, "--device", "cpu")
    assert done.exit_code == 130
    assert len(training.calls) == 1
    assert "0.353" in done.output


def test_cells_are_trained_in_parallel(reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reproduce.run.workers", threads)
    training.failing = 95
    done = reproduce(*CELLS, "--device", "cpu", "--parallel", "2")
    assert done.exit_code == 1
    assert len(training.calls) == 4
    assert "zinc/complex/mean-dx1: loss: expected a number, got nan" in done.stderr
    training.failing = None
    again = reproduce(*CELLS, "--device", "cpu", "--parallel", "3")
    assert again.exit_code == 0
    assert len(training.calls) == 8
    assert again.output.count("0.680 ± 0.382") == 8
    assert "in runs/zinc/simple/mean" in Path("runs/zinc/simple/mean/output.txt").read_text()


def test_a_process_that_dies_fails_only_its_cell(
    reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = run._work

    def die(experiment: Any, *args: Any) -> Any:
        if experiment.name == "zinc/complex/mean":
            raise RuntimeError("process: expected it to finish")
        return work(experiment, *args)

    monkeypatch.setattr(run, "workers", threads)
    monkeypatch.setattr(run, "_work", die)
    done = reproduce(*CELLS, "--device", "cpu", "--parallel", "2")
    assert done.exit_code == 1
    assert "zinc/complex/mean: process: expected it to finish" in done.stderr
    assert len(training.calls) == 3


def test_parallel_is_refused_under_torchrun(reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    refused = reproduce(*CELLS, "--device", "cpu", "--parallel", "2")
    assert refused.exit_code == 1
    assert "--parallel: expected a single process, got several" in refused.stderr
    assert not training.calls


def test_the_tuned_table_is_trained_and_printed(reproduce: Any, training: Any) -> None:
    done = reproduce("table2", "--dataset", "zinc", "--seeds", "41", "--device", "cpu")
    assert [name for name, _ in training.calls] == ["zinc/tuned", "zinc/tuned-no-edges"]
    assert "0.219 ± 0.010" in done.output


def test_graphs_with_other_encodings_are_loaded_again(
    reproduce: Any, training: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = []

    def load(experiment: Any, _progress: bool) -> Any:
        loaded.append((experiment.data.rwse_steps, experiment.num_directions))
        return SimpleNamespace(metric="mae", note="")

    monkeypatch.setattr("dgn.training.load.load_graphs", load)
    rows = "plus,plus-ablation/no-directions,plus-ablation/no-structure"
    done = reproduce("plus", "--dataset", "zinc", "--rows", rows, "--device", "cpu", "--no-curves")
    assert done.exit_code == 0, done.output
    assert [name for name, _ in training.calls] == [f"zinc/{row}" for row in rows.split(",")]
    assert loaded == [(16, 1), (0, 1)]
    assert done.output.index("CIN-small, published") < done.output.index("without structural encodings")


def test_unknown_tables_are_refused(reproduce: Any, training: Any) -> None:
    refused = reproduce("table3", "--dataset", "zinc")
    assert refused.exit_code == 2
    assert "No such command 'table3'" in refused.stderr
    assert not training.calls


@pytest.mark.parametrize("wrong", ["foo", "digits"])
def test_only_datasets_of_the_table_are_offered(reproduce: Any, wrong: str) -> None:
    refused = reproduce("multi-label", "--dataset", wrong)
    assert refused.exit_code == 1
    assert f"dataset of multi-label: expected one of 'muv', 'tox21', got '{wrong}'" in refused.stderr
