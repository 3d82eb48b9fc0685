"""A search for settings: the usual ones first, the best on the validation molecules taken; it goes on where it was."""

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
from dgn.molecules.tune import SETTINGS, present_values
from dgn.training.errors import DivergedError
from dgn.training.experiment import read_experiment
from dgn.tuning.space import read_space

pytest.importorskip("optuna", reason="searches need optuna")
MakeTable = Callable[..., Path]


def search(path: Path, folder: Path, say: Callable[[str], None], trials: int = 3) -> Fitted:
    data = read_table(open_table(path))
    split = split_molecules(data.molecules, data.task, "random", test=0)
    options = FitOptions(members=2, epochs=1, device="cpu", search=trials)
    return fit_table(data, split, options, folder, None, say)


@pytest.mark.parametrize("task", ["regression", "binary", "multi-label"])
@pytest.mark.parametrize("molecules", [50, 500, 5_000, 50_000])
@pytest.mark.parametrize("rare", [False, True])
def test_the_usual_settings_are_in_the_space(molecules: int, task: Task, rare: bool) -> None:
    usual = default_experiment(molecules, (0,), "table", task, rare=rare)
    space = read_space({"settings": SETTINGS})
    values = present_values(usual, space)
    assert read_experiment(usual.to_dict(), space.changes(values)) == usual


def test_a_stopped_search_goes_on_and_takes_the_best(
    make_table: MakeTable, numbers: list[tuple[str, float]], tmp_path: Path
) -> None:
    table, told = make_table(numbers), []

    def stop(message: str) -> None:
        told.append(message)
        if message.startswith("settings 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search(table, tmp_path / "model" / "training", stop)
    assert told[0].startswith("settings 1 of 3: hidden 32, layers 4, aggregators [sum, mean, max, dx1], ")
    second = told[-1]
    told.clear()
    fitted = search(table, tmp_path / "model" / "training", told.append)
    assert told[:2] == ["1 of 3 settings were tried before", second]
    rows = fitted.model.facts["search"]
    assert sorted(row["trial"] for row in rows) == [0, 1, 2]
    scores = [row["val mae"] for row in rows]
    assert scores == sorted(scores)
    assert fitted.model.experiment.network.hidden == rows[0]["network.hidden"]
    # Networks of the best settings are not trained again.
    assert told[-2:] == [f"seed {seed}: already trained (1 epoch)" for seed in (0, 1)]
    assert told[-3].startswith("chosen by the validation molecules: hidden ")
    assert not any("going on" in line for line in told)
    write_folder(fitted, tmp_path / "model", "table", ())
    assert len((tmp_path / "model" / "search.csv").read_text().splitlines()) == 4
    card = (tmp_path / "model" / "README.md").read_text()
    assert "Settings chosen among 3 by the validation molecules" in card
    assert "No molecules were held out." in card
    assert not list((tmp_path / "model").glob("*.png"))


def test_settings_with_more_directions_than_the_usual_ones_may_win(
    make_table: MakeTable, numbers: list[tuple[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SETTINGS, "network.aggregators", ["[mean, dx1, dx2]"])
    monkeypatch.setattr("dgn.molecules.tune.present_values", lambda *_: {})
    model = search(make_table(numbers), tmp_path / "training", print, 1).model
    assert model.experiment.num_directions == 2
    assert model.facts["metrics"]["val"]["targets"]["y"]["molecules"] == model.facts["molecules"]["val"]


def test_settings_that_diverge_have_no_score(
    make_table: MakeTable, numbers: list[tuple[str, float]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diverge(*_: Any, **__: Any) -> None:
        raise DivergedError("loss: expected a number")

    monkeypatch.setattr("dgn.molecules.tune.train", diverge)
    told: list[str] = []
    with pytest.raises(RuntimeError, match="expected settings that can be trained, got none"):
        search(make_table(numbers), tmp_path / "training", told.append, 2)
    assert told.count("  no score: loss: expected a number") == 2


def test_estimators_search_too(numbers: list[tuple[str, float]]) -> None:
    model = dgn.DGNRegressor(members=1, epochs=1, device="cpu", search=2)
    model.fit([one for one, _ in numbers], [y for _, y in numbers])
    assert len(model.model_.facts["search"]) == 2
