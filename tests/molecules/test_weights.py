"""Weights of molecules and classes: in the training loss, and nowhere else."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn import DGNClassifier, DGNRegressor
from dgn.molecules.columns import Target
from dgn.molecules.fit import FitOptions, fit_molecules
from dgn.molecules.rows import read_table
from dgn.molecules.table import open_table
from dgn.molecules.weights import balanced_weights
from dgn.training.model import load_trained
from dgn.training.objectives import binary, classes, l1
from dgn.training.trainer import train
from tests.molecules.conftest import SMILES, MakeTable
from tests.training.small import make_benchmark, make_experiment


def test_balanced_classes_have_the_same_total_weight() -> None:
    labels = torch.tensor([[0.0, 1.0], [0.0, torch.nan], [0.0, 1.0], [1.0, 0.0]])
    weight = balanced_weights(labels, labels)
    for column in range(2):
        zero, one = (weight[labels[:, column] == label, column].sum() for label in (0, 1))
        torch.testing.assert_close(zero, one)
    torch.testing.assert_close(weight[:, 0].mean(), torch.tensor(1.0))


@pytest.mark.parametrize("loss", [l1, binary])
def test_weights_of_entries_weigh_the_loss(loss: object) -> None:
    prediction, target = torch.tensor([[0.5, 2.0], [1.0, -1.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    weight = torch.tensor([[1.0, 0.0], [3.0, 2.0]])
    entries = [
        loss(prediction[r, c].view(1, 1), target[r, c].view(1, 1), weight[r, c].view(1)) for r in (0, 1) for c in (0, 1)
    ]  # type: ignore[operator]
    numerator, denominator = (sum(terms) for terms in zip(*entries, strict=True))
    torch.testing.assert_close(loss(prediction, target, weight), (numerator, denominator))  # type: ignore[operator]


def test_rows_of_classes_take_a_column_of_weights() -> None:
    prediction, target, weight = torch.randn(3, 4), torch.tensor([0, 3, 1]), torch.tensor([1.0, 0.0, 2.0])
    torch.testing.assert_close(classes(prediction, target, weight[:, None]), classes(prediction, target, weight))


def test_values_of_weight_0_do_not_teach(tmp_path: Path) -> None:
    """Whatever they are, the trained network is the same; with a weight it is another."""
    experiment, benchmark = make_experiment(), make_benchmark("regression")
    graphs = benchmark.graphs
    chosen = (graphs.graphs["split"] == 0) & (torch.arange(len(graphs)) % 2 == 0)
    wrong = torch.where(chosen, 100.0, graphs.graphs["y"].flatten()).view_as(graphs.graphs["y"])
    predictions = {}
    for name, y, weight in (("right", graphs.graphs["y"], 0.0), ("wrong", wrong, 0.0), ("weighted", wrong, 1.0)):
        values = {"y": y, "sample_weight": torch.where(chosen, weight, 1.0)}
        weighted = replace(benchmark, graphs=graphs.with_values(graphs=values))
        train(experiment, weighted, [7], tmp_path / name, "cpu")
        predictions[name] = load_trained(tmp_path / name / "seed-7", "cpu").predict(graphs)
    assert torch.equal(predictions["right"], predictions["wrong"])
    assert not torch.equal(predictions["wrong"], predictions["weighted"])


def test_estimators_take_weights(numbers: list[tuple[str, float]]) -> None:
    smiles, values = [one for one, _ in numbers], np.array([value for _, value in numbers])
    options = {"ensemble_size": 1, "epochs": 2, "device": "cpu"}
    fits = [
        DGNRegressor(**options).fit(smiles, values, sample_weight=weight) for weight in (None, 3 * np.ones(84), values)
    ]
    plain, equal, weighted = (model.predict(smiles[:5]) for model in fits)
    np.testing.assert_allclose(plain, equal, rtol=1e-3)
    assert np.abs(plain - weighted).max() > 1e-3
    with pytest.raises(ValueError, match="sample_weight: expected 84 numbers, one for each SMILES"):
        DGNRegressor(**options).fit(smiles, values, sample_weight=values[:3])
    with pytest.raises(ValueError, match="sample_weight: expected numbers of 0 or more"):
        DGNRegressor(**options).fit(smiles, values, sample_weight=-values)


def test_a_column_of_weights(make_table: MakeTable, tmp_path: Path) -> None:
    rows = [(one, index % 2, index % 3) for index, one in enumerate(SMILES)]
    table = open_table(make_table([*rows, ("CCO", 1, "-2"), ("CCN", 1, "")], ("smiles", "y", "w")))
    data = read_table(table, weights="w")
    assert [target.name for target in data.targets] == ["y"]
    assert str(data.problems[0]) == (
        "2 rows: no weight of 0 or more in the column of --weights; left out (lines 86, 87)"
    )
    weights = data.molecules.graphs.graphs["sample_weight"]
    assert weights.tolist() == [index % 3 for index in range(len(SMILES))]
    split = (weights != 0).byte()
    options = FitOptions(1, 1, device="cpu")
    with pytest.raises(ValueError, match="weights: expected some above 0 in the training split, got none"):
        fit_molecules(data.molecules, split, data.task, data.targets, "smiles", options, tmp_path)


def test_balanced_classes_are_weights_of_their_molecules(make_table: MakeTable, tmp_path: Path) -> None:
    rows = [(one, int(index % 5 == 0)) for index, one in enumerate(SMILES)]
    data = read_table(open_table(make_table(rows)))
    molecules, split = data.molecules, torch.arange(len(rows)).div(2, rounding_mode="floor").remainder(3).byte()
    weight = balanced_weights(molecules.values, molecules.values[split == 0])[:, 0].float()
    weighted = replace(molecules, graphs=molecules.graphs.with_values(graphs={"sample_weight": weight}))
    cases = {"balanced": (molecules, "balanced"), "weighted": (weighted, None), "plain": (molecules, None)}
    predictions = {}
    for name, (used, class_weights) in cases.items():
        options = FitOptions(1, 2, device="cpu", class_weights=class_weights)
        fitted = fit_molecules(used, split, data.task, data.targets, "smiles", options, tmp_path / name)
        predictions[name] = fitted.model.predict(list(SMILES[:5])).mean
    torch.testing.assert_close(predictions["balanced"], predictions["weighted"])
    assert (predictions["plain"] - predictions["weighted"]).abs().max() > 1e-3
    with pytest.raises(ValueError, match="class_weights: expected one of 'balanced', got 'none'"):
        DGNClassifier(class_weight="none").fit(SMILES, np.arange(len(SMILES)) % 2)


def test_numbers_have_no_classes_to_balance(
    numbers: list[tuple[str, float]], make_table: MakeTable, tmp_path: Path
) -> None:
    data = read_table(open_table(make_table(numbers)))
    split = torch.arange(len(numbers)).remainder(3).byte()
    options = FitOptions(1, 1, device="cpu", class_weights="balanced")
    with pytest.raises(ValueError, match="class_weights: expected classes to balance, got regression"):
        fit_molecules(data.molecules, split, "regression", (Target("y"),), "smiles", options, tmp_path)
