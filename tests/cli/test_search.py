"""``dgn search``: trials are runs, validation chooses, and an interrupted search resumes."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dgn.training.experiment import load_experiment
from dgn.training.run import EpochReport, RunResult
from dgn.tuning.space import Range, load_space

pytest.importorskip("optuna", reason="searches need optuna")
SPACE = "settings:\n  network.aggregators: [[mean], [mean, dx1-signed, dx2-signed]]\n"
SEARCH = ("search", "digits/mean", "--space", "space.yaml", "--trials", "2", "--out", "here", "--device", "cpu")
SMALL = (
    "training.epochs=1",
    "training.warmup=0",
    "network.hidden=4",
    "network.num_layers=1",
    "data.train_fraction=0.05",
)


@pytest.fixture
def search(dgn: Any) -> Any:
    Path("space.yaml").write_text(SPACE)
    return lambda *arguments: dgn(*SEARCH, *arguments)


@pytest.fixture
def pretended(training: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """No training, on digits."""
    digits = SimpleNamespace(metric="accuracy", note="")
    monkeypatch.setattr("dgn.training.load.load_graphs", lambda *_: digits)
    return training


def opposed(self: Any, seed: int, metric: str, _: Any) -> RunResult:
    """A result whose test score is best where validation is worst."""
    val = 0.4 if len(self.calls) == 1 else 0.6
    metrics = {"train": {metric: 0.5}, "val": {metric: val}, "test": {metric: 0.9876 - val}}
    history: list[dict[str, float]] = [{"epoch": 1, "train_loss": 1.0, "val_loss": 1.0, metric: val}]
    return RunResult(seed, 1234, 1, 20, 3.0, "all epochs done", metrics, history, "cpu")


def test_a_search_with_the_real_training_loop(search: Any) -> None:
    done = search(*(arg for change in SMALL for arg in ("--set", change)))
    assert done.exit_code == 0, done.output
    assert "1/2 network.aggregators [mean]" in done.output
    for trial in ("trial-0", "trial-1"):
        assert Path(f"here/{trial}/seed-41/result.json").exists()
        assert load_experiment(f"here/{trial}/experiment.yaml").training.epochs == 1
    assert load_experiment("here/best.yaml").network.hidden == 4


def test_validation_decides_and_test_is_not_shown(search: Any, pretended: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(pretended), "result", opposed)
    done = search()
    assert done.exit_code == 0, done.output
    assert load_experiment("here/best.yaml").network.aggregators == ("mean", "dx1-signed", "dx2-signed")
    assert "best on validation: trial 1" in done.output
    assert "60.00" in done.output
    assert "58.76" not in done.output
    assert "38.76" not in done.output


def test_an_interrupted_search_resumes(search: Any, pretended: Any) -> None:
    pretended.interrupt = True
    assert search().exit_code == 130
    pretended.interrupt = False
    done = search()
    assert done.exit_code == 0, done.output
    assert "seed 41: resuming" in done.output  # the interrupted run
    assert [name for name, _ in pretended.calls] == ["digits/mean/trial-0"] * 2 + ["digits/mean/trial-1"]
    again = search()
    assert again.exit_code == 0
    assert len(pretended.calls) == 3


def test_trials_that_diverge_or_are_invalid_have_no_score(search: Any, pretended: Any) -> None:
    Path("space.yaml").write_text("settings:\n  network.towers: [3, 2]\n")
    pretended.failing = 41
    done = search("--set", "network.hidden=79")
    assert done.exit_code == 1
    assert "skipped: network.hidden: expected a multiple of the 3 towers, got 79" in done.output
    assert "here: expected a trial with a score, got none" in done.stderr


def test_a_diverging_trial_is_reported_and_the_search_continues(search: Any, pretended: Any) -> None:
    pretended.failing = 41
    done = search()
    assert "trial 0: loss: expected a number, got nan" in done.stderr
    assert len(pretended.calls) == 2


def test_settings_that_training_refuses_have_no_score(search: Any) -> None:
    Path("space.yaml").write_text("settings:\n  kind:\n    other: {augmentation.resample: true}\n    same: {}\n")
    done = search(*(arg for change in SMALL for arg in ("--set", change)))
    assert done.exit_code == 0, done.output
    assert "trial 0: augmentation.resample: expected" in done.stderr
    assert "best on validation: trial 1" in done.output


def test_any_error_in_a_trial_is_reported_and_the_search_continues(
    search: Any, pretended: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(experiment: Any, *args: Any, **kwargs: Any) -> Any:
        if experiment.name.endswith("trial-0"):
            raise KeyError("a kernel does not compile")
        return pretended(experiment, *args, **kwargs)

    monkeypatch.setattr("dgn.training.trainer.train", train)
    done = search()
    assert done.exit_code == 0, done.output
    assert "trial 0: KeyError: 'a kernel does not compile'" in done.stderr
    assert "Traceback" in done.output
    assert "best on validation: trial 1" in done.output


@pytest.mark.parametrize("problem", [FileNotFoundError("zinc: expected a file"), ImportError("rdkit: expected")])
def test_missing_data_or_packages_end_the_search(
    search: Any, pretended: Any, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def train(*_: Any, **__: Any) -> Any:
        raise problem

    monkeypatch.setattr("dgn.training.trainer.train", train)
    done = search()
    assert done.exit_code == 1
    assert str(problem) in done.stderr
    monkeypatch.setattr("dgn.training.trainer.train", pretended)
    assert search().exit_code == 0
    assert [name for name, _ in pretended.calls] == ["digits/mean/trial-0", "digits/mean/trial-1"]


def test_a_trial_behind_the_median_is_pruned(search: Any, pretended: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = [0.5, 0.6, 0.7, 0.8, 0.9, 0.65, 0.7, 0.85]

    def result(self: Any, seed: int, metric: str, on_epoch: Any) -> RunResult:
        score = scores[len(self.calls) - 1]
        on_epoch(EpochReport(seed, 1, 2, 1e-3, 1.0, 1.0, {metric: score}, 1.0, 100.0))
        return RunResult(seed, 1234, 2, 20, 3.0, "all epochs done", {"val": {metric: score}}, [], "cpu")

    monkeypatch.setattr(type(pretended), "result", result)
    Path("space.yaml").write_text("settings:\n  training.learning_rate: {low: 1e-4, high: 1e-2, log: true}\n")
    done = search("--trials", "8", "--prune", "--set", "training.epochs=2")
    assert done.exit_code == 0, done.output
    message = "pruned after 1 of 2 epochs: validation accuracy 65.00, median of 5 others 70.00"
    assert f"trial 5: {message}" in done.output
    assert "trial 6: validation accuracy 70.00" in done.output  # as good as the median
    assert "trial 5" not in done.stderr
    assert not Path("here/trial-5/seed-41/result.json").exists()
    assert "best on validation: trial 4" in done.output
    monkeypatch.setattr(type(pretended), "result", opposed)
    again = search("--trials", "8", "--prune", "--set", "training.epochs=2")
    assert "1/8" not in again.output  # a pruned trial is not repeated


def test_without_a_search_space_the_error_shows_an_example(dgn: Any) -> None:
    refused = dgn("search", "digits/dx", "--trials", "3")
    assert refused.exit_code == 1
    assert "--space: expected a file, as digits has no built-in space" in refused.stderr
    Path("space.yaml").write_text(refused.stderr.partition("such as\n")[2])
    assert load_space("space.yaml").domains == {"training.learning_rate": Range(1e-4, 1e-2, log=True)}


def test_without_optuna_the_error_names_the_extra(search: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    refused = search()
    assert refused.exit_code == 1
    assert "search: expected the package optuna, got none of that name; install the extra 'search'" in refused.stderr
