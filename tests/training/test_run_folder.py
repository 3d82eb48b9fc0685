"""The folder of a run: complete files, finished seeds, and no mixing of experiments."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from dgn.training.experiment import load_experiment
from dgn.training.run_folder import (
    RESULT,
    FinishedRun,
    finished_runs,
    is_begun,
    read_history,
    read_run,
    seed_folder,
    write_experiment,
    write_run,
    write_text,
)

HISTORY = [{"epoch": 1, "train_loss": 0.1}, {"epoch": 2, "train_loss": 1 / 3, "mae": 0.125}]


def test_a_written_run_is_read_again(tmp_path: Path, make_run: Any) -> None:
    runs = {seed: make_run(seed=seed, test=0.1 + seed / 7) for seed in (41, 95)}
    for run in runs.values():
        write_run(tmp_path, run, HISTORY)
    assert finished_runs(tmp_path) == runs
    assert read_history(tmp_path, 95) == HISTORY


def test_a_result_file_stands_alone(tmp_path: Path, make_run: Any) -> None:
    write_run(tmp_path, make_run(), HISTORY)
    result = json.loads((seed_folder(tmp_path, 41) / RESULT).read_text())
    assert result["experiment"]["network"]["hidden"] == 75
    assert {"seed", "metrics", "parameters", "steps", "seconds", "device", "versions", "stopped"} < set(result)
    assert "history" not in result


def test_a_run_is_made_from_what_the_loop_returns() -> None:
    @dataclass
    class Result:
        seed: int = 41
        parameters: int = 7
        epochs: int = 2
        steps: int = 4
        seconds: float = 0.5
        stopped: str = "done"
        metrics: Any = None
        history: Any = None
        device: str = "cpu"

    result: Any = Result(metrics={"test": {"mae": 0.5}}, history=HISTORY)
    run = FinishedRun.of(load_experiment("zinc/tuned", ["data.path=/my/own"]), result, "resampled")
    assert run.experiment == load_experiment("zinc/tuned")
    assert (run.seed, run.parameters, run.data, run.metrics) == (41, 7, "resampled", {"test": {"mae": 0.5}})
    assert "torch" in run.versions


def test_files_are_written_in_full_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "a.txt"
    write_text(path, "old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", fail)
        with pytest.raises(OSError, match="disk full"):
            write_text(path, "new")
    assert [each.name for each in path.parent.iterdir()] == ["a.txt"]
    assert path.read_text() == "old"


def test_the_same_experiment_comes_back_to_its_folder_and_another_does_not(tmp_path: Path, make_run: Any) -> None:
    base, other = (load_experiment("digits/mean", [f"training.epochs={n}", f"network.hidden={n}"]) for n in (7, 8))
    assert not is_begun(tmp_path / "new", base)
    write_experiment(tmp_path, base)
    assert not is_begun(tmp_path, other)  # no seed has begun yet
    write_run(tmp_path, make_run("digits/mean"), HISTORY)
    assert is_begun(tmp_path, replace(base, training=replace(base.training, seeds=(1, 2))))
    message = (
        r"differs in network.hidden \(7 there, 8 requested\), training.epochs \(7 there, 8 requested\); choose another"
    )
    with pytest.raises(ValueError, match=message):
        is_begun(tmp_path, other)
    with pytest.raises(ValueError, match="and 1 more; choose another"):
        is_begun(tmp_path, replace(other, data=replace(other.data, path="a", train_fraction=0.5)))


def test_a_file_in_the_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    for place in ("mine.yaml", "mine.yaml/mean"):
        with pytest.raises(
            ValueError, match=r"--out: expected a folder, got the file .*mine.yaml; choose another path"
        ):
            is_begun(tmp_path / place, load_experiment("digits/mean"))


def test_what_was_published_and_the_name_are_no_differences() -> None:
    one = load_experiment("zinc/tuned")
    assert one.differences(replace(one, name="other", published=None)) == []
    assert one.differences(load_experiment("zinc/tuned", ["data.path=elsewhere"])) == ["data.path"]


@pytest.mark.parametrize("text", ["", "{}", '{"format": "dgn result 1"}', "[]"])
def test_a_broken_result_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / RESULT
    path.write_text(text)
    with pytest.raises(ValueError, match=r"result.json: expected a result of dgn, got .*; remove the file"):
        read_run(path)


def test_a_changed_result_is_refused(tmp_path: Path, make_run: Any) -> None:
    write_run(tmp_path, make_run("digits/mean", seed=3, test=0.25), HISTORY)
    path = tmp_path / "seed-3" / RESULT
    text = path.read_text()
    assert read_run(path).metrics["test"]["accuracy"] == 0.25
    for before, after in (("0.25", "0.75"), ('"epochs": 3', '"epochs": 4'), ('"checksum"', '"checksun"')):
        assert before in text
        path.write_text(text.replace(before, after))
        with pytest.raises(ValueError, match=r"result.json: expected a result of dgn, got .*; remove the file"):
            read_run(path)
    values = json.loads(text)
    del values["checksum"]  # of an earlier version
    path.write_text(json.dumps(values))
    assert read_run(path).seed == 3


def test_epochs_of_an_unfinished_run_may_grow(tmp_path: Path, make_run: Any) -> None:
    plateau = "training.schedule=plateau"
    few, more = (load_experiment("digits/mean", [f"training.epochs={n}", plateau]) for n in (5, 7))
    write_experiment(tmp_path, few)
    (tmp_path / "seed-1").mkdir()
    assert is_begun(tmp_path, more)
    write_experiment(tmp_path, more)
    with pytest.raises(ValueError, match=r"differs in training\.epochs \(7 there, 5 requested\)"):
        is_begun(tmp_path, few)
    cosine = [replace(one, training=replace(one.training, schedule="cosine")) for one in (few, more)]
    write_experiment(tmp_path, cosine[0])
    with pytest.raises(ValueError, match=r"differs in training\.epochs \(5 there, 7 requested\)"):
        is_begun(tmp_path, cosine[1])  # whose learning rates depend on their number
    write_experiment(tmp_path, few)
    write_run(tmp_path, make_run("digits/mean", seed=1), HISTORY)
    with pytest.raises(ValueError, match=r"differs in training\.epochs \(5 there, 7 requested\)"):
        is_begun(tmp_path, more)  # one seed is finished with fewer


def test_a_relative_path_of_the_data_is_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = load_experiment("digits/mean", ["data.path=graphs"])
    plain = replace(experiment, data=replace(experiment.data, path="graphs"))  # from Python
    for one in (experiment, plain):
        write_experiment(tmp_path / "run", one)
        (tmp_path / "run" / "seed-1").mkdir(exist_ok=True)
        assert is_begun(tmp_path / "run", experiment)
        assert is_begun(tmp_path / "run", plain)
