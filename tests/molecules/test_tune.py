"""Hyperparameter search for a table: defaults first, the best on validation wins, and it resumes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dgn
from dgn.molecules.columns import Task
from dgn.molecules.defaults import default_experiment
from dgn.molecules.fit import FitOptions, Fitted, fit_table
from dgn.molecules.folder import write_folder
from dgn.molecules.rows import read_table
from dgn.molecules.split import split_molecules
from dgn.molecules.table import open_table
from dgn.molecules.tune import SETTINGS, current_values
from dgn.training.errors import DivergedError
from dgn.training.experiment import read_experiment
from dgn.tuning.space import read_space

pytest.importorskip("optuna", reason="searches need optuna")
MakeTable = Callable[..., Path]


def search(path: Path, folder: Path, echo: Callable[[str], None], trials: int = 3) -> Fitted:
    data = read_table(open_table(path))
    split = split_molecules(data.molecules, data.task, "random", test=0)
    options = FitOptions(ensemble_size=2, epochs=1, device="cpu", search=trials)
    return fit_table(data, split, options, folder, None, echo)


@pytest.mark.parametrize("task", ["regression", "binary", "multi-label", "multiclass"])
@pytest.mark.parametrize("molecules", [50, 500, 5_000, 50_000])
@pytest.mark.parametrize("rare", [False, True])
def test_default_settings_are_in_the_search_space(molecules: int, task: Task, rare: bool) -> None:
    usual = default_experiment(molecules, (0,), "table", task, rare=rare)
    space = read_space({"settings": SETTINGS})
    values = current_values(usual, space)
    assert read_experiment(usual.to_dict(), space.changes(values)) == usual


def test_an_interrupted_search_resumes_and_keeps_the_best(
    make_table: MakeTable, numbers: list[tuple[str, float]], tmp_path: Path
) -> None:
    table, messages = make_table(numbers), []

    def stop(message: str) -> None:
        messages.append(message)
        if message.startswith("trial 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(table, tmp_path / "model" / "training", stop)
    assert messages[0].startswith("trial 1 of 3: hidden 32, num_layers 4, aggregators [sum, mean, max, dx1], ")
    second = messages[-1]
    messages.clear()
    fitted = search(table, tmp_path / "model" / "training", messages.append)
    assert messages[:2] == ["resuming after 1 of 3 trials", second]
    rows = fitted.model.facts["search"]
    assert sorted(row["trial"] for row in rows) == [0, 1, 2]
    scores = [row["val mae"] for row in rows]
    assert scores == sorted(scores)
    assert fitted.model.experiment.network.hidden == rows[0]["network.hidden"]
    # Members with the best settings are not trained again.
    assert messages[-2:] == [f"seed {seed}: already trained (1 epoch)" for seed in (0, 1)]
    assert messages[-3].startswith("best on the validation split: hidden ")
    assert not any("resuming after epoch" in line for line in messages)
    write_folder(fitted, tmp_path / "model", "table", ())
    assert len((tmp_path / "model" / "search.csv").read_text().splitlines()) == 4
    card = (tmp_path / "model" / "README.md").read_text()
    assert "Settings: the best of 3 trials on the validation split" in card
    assert "There is no test split." in card
    assert not list((tmp_path / "model").glob("*.png"))


def test_settings_with_more_directions_than_the_default_may_win(
    make_table: MakeTable, numbers: list[tuple[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "network.aggregators", ["[mean, dx1, dx2]"])
    monkeypatch.setattr("dgn.molecules.tune.current_values", lambda *_: {})
    model = search(make_table(numbers), tmp_path / "training", print, 1).model
    assert model.experiment.num_directions == 2
    assert model.facts["metrics"]["val"]["targets"]["y"]["molecules"] == model.facts["molecules"]["val"]


def test_trials_that_diverge_have_no_score(
    make_table: MakeTable, numbers: list[tuple[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*_: Any, **__: Any) -> None:
        raise DivergedError("loss: expected a number")

    monkeypatch.setattr("dgn.molecules.tune.train", diverge)
    messages: list[str] = []
    with pytest.raises(RuntimeError, match="expected a trial with a score, got none"):
        search(make_table(numbers), tmp_path / "training", messages.append, 2)
    assert messages.count("  no score: loss: expected a number") == 2


def test_estimators_search_too(numbers: list[tuple[str, float]]) -> None:
    model = dgn.DGNRegressor(ensemble_size=1, epochs=1, device="cpu", search=2)
    model.fit([one for one, _ in numbers], [y for _, y in numbers])
    assert len(model.model_.facts["search"]) == 2
