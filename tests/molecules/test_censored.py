"""Censored values: bounds in the loss and the scores, not in the calibration."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dgn import DGNRegressor
from dgn.molecules.columns import Target, read_bound
from dgn.molecules.fit import FitOptions, fit_table
from dgn.molecules.folder import split_rows
from dgn.molecules.model_card import score_table
from dgn.molecules.rows import censoring_of, read_table, select_targets
from dgn.molecules.scores import score_regression
from dgn.molecules.split import split_molecules
from dgn.molecules.table import open_table
from dgn.training.objectives import censored_target, l1
from tests.molecules.conftest import SMILES, MakeTable


def test_signs() -> None:
    assert [read_bound(text) for text in (">10", "≥ 1e3", " < -2 ", "<= .5")] == [
        (10, 1),
        (1000, 1),
        (-2, -1),
        (0.5, -1),
    ]
    assert [read_bound(text) for text in ("10", "", ">", "><1", "~10", "> 10 nM", "10>")] == [None] * 7


def test_the_loss_is_one_sided_with_its_gradient() -> None:
    prediction = torch.tensor([[12.0], [8.0], [12.0], [8.0]], requires_grad=True)
    target, sign = torch.full((4, 1), 10.0), torch.tensor([[1], [1], [-1], [-1]])
    numerator, denominator = l1(prediction, censored_target(target, prediction, sign), torch.ones(4))
    numerator.backward()
    assert (numerator.item(), denominator.item()) == (4.0, 4.0)
    assert prediction.grad is not None
    assert prediction.grad.flatten().tolist() == [0.0, -1.0, 1.0, 0.0]
    missing = censored_target(torch.full((1, 1), torch.nan), torch.ones(1, 1), torch.ones(1, 1))
    assert missing.isnan().all()


def test_scores_count_a_bound_that_holds_as_no_error() -> None:
    truth, prediction = torch.tensor([[1.0], [2.0], [10.0], [10.0]]), torch.tensor([[1.0], [3.0], [15.0], [6.0]])
    half, median = torch.full((4, 1), 0.5), torch.tensor([11.0])
    sign = torch.tensor([[0], [0], [1], [1]])
    scores = score_regression([Target("y")], truth, prediction, half, median, sign)["y"]
    assert scores["censored"] == 2
    assert scores["mae"] == pytest.approx((0 + 1 + 0 + 4) / 4)
    assert scores["coverage"] == 0.5  # of the measured values
    assert scores["r2"] == pytest.approx(1 - 1 / 0.5)
    assert scores["mae of the training median"] == pytest.approx((10 + 9 + 0 + 0) / 4)
    bounds = score_regression([Target("y")], truth[2:], prediction[2:], half[2:], median, sign[2:])["y"]
    assert np.isnan(bounds["coverage"])
    assert np.isnan(bounds["r2"])


def table_rows(numbers: list[tuple[str, float]]) -> list[tuple[str, str]]:
    """Values above 12 are only known to be so."""
    return [(one, f"> {12}" if value > 12 else f"{value:g}") for one, value in numbers]


def test_a_table_with_bounds(numbers: list[tuple[str, float]], make_table: MakeTable, tmp_path: Path) -> None:
    rows = table_rows(numbers)
    count = sum(value.startswith(">") for _, value in rows)
    table = open_table(make_table(rows))
    data = read_table(table)
    assert data.task == "regression"
    assert int(censoring_of(data.molecules).sum()) == count
    assert any("censored values such as > 10; kept as bounds" in str(problem) for problem in data.problems)
    split = split_molecules(data.molecules, data.task, "random")
    fitted = fit_table(data, split, FitOptions(1, 12, device="cpu"), tmp_path / "training")
    test = split.assignment == 2
    uncensored = int((censoring_of(data.molecules)[split.assignment == 1] == 0).sum())
    assert 0 < int((~fitted.model.scores.isnan()).sum()) <= uncensored
    scores = fitted.model.facts["metrics"]["test"]["targets"]["y"]
    assert scores["censored"] == int(censoring_of(data.molecules)[test].sum())
    assert "censored" in score_table(fitted.model).header
    written = [row["y"] for row in split_rows(fitted)]
    assert written == [value.replace(" ", "") for _, value in rows]
    dropped = read_table(table, censored="drop")
    assert len(dropped.molecules.smiles) == len(rows) - count
    assert any("censored values such as > 10; treated as missing" in str(problem) for problem in dropped.problems)


def test_columns_of_bounds_follow_their_targets(make_table: MakeTable) -> None:
    rows = [(one, index, f"<{index}" if index % 2 else index) for index, one in enumerate(SMILES)]
    data = read_table(open_table(make_table(rows, ("smiles", "a", "b"))), targets=["a", "b"])
    chosen = select_targets(data.molecules, torch.tensor([False, True]))
    assert censoring_of(chosen)[:, 0].tolist() == [-(index % 2) for index in range(len(SMILES))]
    classes = read_table(open_table(make_table([(one, (">5", "<=5")[n % 2]) for n, one in enumerate(SMILES)])))
    assert classes.task == "binary"


def test_bounds_raise_predictions(numbers: list[tuple[str, float]]) -> None:
    """All values are at most 12, but for those above the truth is known to be higher."""
    smiles, values = [one for one, _ in numbers], np.minimum([value for _, value in numbers], 8)
    signs = (values == 8).astype(int)
    options = {"ensemble_size": 1, "epochs": 15, "device": "cpu"}
    exact = DGNRegressor(**options).fit(smiles, values).predict(smiles)
    above = DGNRegressor(**options).fit(smiles, values, censoring=signs).predict(smiles)
    assert above[signs == 1].mean() > exact[signs == 1].mean()
    with pytest.raises(ValueError, match="censoring: expected 1, -1 or 0 for each y"):
        DGNRegressor(**options).fit(smiles, values, censoring=signs[:3])
