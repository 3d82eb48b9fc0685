"""A forest among the members: equal to scikit-learn, stored as tensors, and honest where it calibrates."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor

from dgn.data.benchmark import GRAPH_ATTR
from dgn.data.datasets.smiles import pack_smiles
from dgn.molecules.calibration import cross_mean, make_folds
from dgn.molecules.conformal import conformal_scores
from dgn.molecules.explain import explain
from dgn.molecules.fit import FitOptions, Fitted, fit_table
from dgn.molecules.forest import (
    LEAF,
    LEAVES,
    TREES,
    WEIGHT,
    Forest,
    as_outputs,
    fit_forest,
    join_inputs,
    leaf_size,
    member_weights,
    pack_tree,
)  # fmt: skip
from dgn.molecules.model_card import forest_text
from dgn.molecules.model_io import load_model, weighted_spread
from dgn.molecules.predict import PredictOptions, predict_smiles, predict_table
from dgn.molecules.rows import read_table, take
from dgn.molecules.split import split_molecules
from dgn.molecules.table import open_table
from tests.molecules.conftest import SMILES, MakeTable

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(80, 6)).astype(np.float32)
KEYS = [str(row) for row in range(80)]


def values_of(inputs: np.ndarray, targets: int = 2) -> torch.Tensor:
    return torch.from_numpy(
        np.stack([inputs[:, 0] + inputs[:, column] ** 2 for column in range(targets)], axis=1)
    ).double()


def test_packed_trees_predict_as_scikit_learn() -> None:
    inputs = RANDOM.normal(size=(300, 5)).astype(np.float32)
    inputs[:, 4] = np.round(inputs[:, 4])  # ties: thresholds between equal values
    reference = RandomForestRegressor(20, random_state=0).fit(inputs, inputs[:, 0] * inputs[:, 4])
    nodes, roots, start = [], [], 0
    for tree in reference.estimators_:
        roots.append(start)
        nodes.append(pack_tree(tree.tree_, start))
        start += len(nodes[-1][0])
    feature, number, right = (torch.from_numpy(np.concatenate(parts)) for parts in zip(*nodes, strict=True))
    forest = Forest(feature, number, right, torch.tensor([roots]), torch.ones(1), torch.tensor([5]))
    others = np.concatenate([inputs, RANDOM.normal(size=(300, 5)).astype(np.float32)])
    np.testing.assert_allclose(forest.predict(others)[:, 0], reference.predict(others), rtol=1e-6, atol=1e-6)


def test_a_feature_at_a_threshold_goes_left() -> None:
    odd = np.nextafter(np.float32(2), np.float32(3))  # halfway to the next number, rounding would go up
    inputs = np.array([odd, odd, np.nextafter(odd, np.float32(3))]).reshape(3, 1)
    tree = RandomForestRegressor(1, bootstrap=False).fit(inputs, [0.0, 0.0, 1.0]).estimators_[0]
    feature, number, right = (torch.from_numpy(part) for part in pack_tree(tree.tree_, 0))
    forest = Forest(feature, number, right, torch.tensor([[0]]), torch.ones(1), torch.tensor([1]))
    assert forest.predict(inputs).flatten().tolist() == [0.0, 0.0, 1.0]


def test_out_of_bag_outputs_do_not_depend_on_the_value_nor_on_duplicates() -> None:
    keys = [str(row // 2) for row in range(80)]  # pairs
    values = values_of(INPUTS, 1)
    changed = values.clone()
    changed[:2] += 100  # one molecule, in two rows
    first, second = (fit_forest(INPUTS, each, keys, None, "regression", 0) for each in (values, changed))
    torch.testing.assert_close(first.out_of_bag[:2], second.out_of_bag[:2])
    assert float(second.out_of_bag[2:].max()) > 5  # others learned from it
    apart = fit_forest(INPUTS, changed, KEYS, None, "regression", 0)
    assert float(apart.out_of_bag[:2].max()) > float(second.out_of_bag[:2].max())


def test_molecules_without_a_value_are_predicted_by_all_trees() -> None:
    values = values_of(INPUTS)
    values[60:] = torch.nan
    forest, out_of_bag = fit_forest(INPUTS, values, KEYS, None, "regression", 3)
    torch.testing.assert_close(out_of_bag[60:], forest.predict(INPUTS[60:]).float())
    assert (out_of_bag[:60] - forest.predict(INPUTS[:60])).abs().mean() > 0.05


def test_values_missing_in_one_target_teach_the_other() -> None:
    values = values_of(INPUTS)
    values[:, 1] = torch.nan
    values[:9, 1] = 1.0  # too few
    forest = fit_forest(INPUTS, values, KEYS, None, "regression", 0).forest
    assert forest.weight.tolist() == [WEIGHT, 0.0]
    assert forest.predict(INPUTS)[:, 1].tolist() == [0.0] * 80
    alone = fit_forest(INPUTS, values[:, :1], KEYS, None, "regression", 0).forest
    torch.testing.assert_close(forest.predict(INPUTS)[:, :1], alone.predict(INPUTS))


def test_weights_are_those_of_repeated_molecules_and_zero_leaves_one_out() -> None:
    labels = (values_of(INPUTS, 1) > 1).double()
    heavy = torch.where(labels == 1, 50.0, 1.0)[:, 0]
    alike = np.zeros_like(INPUTS)  # trees of one leaf
    plain, weighted = (fit_forest(alike, labels, KEYS, w, "binary", 0).forest for w in (None, heavy))
    assert float(plain.predict(alike)[0]) == pytest.approx(float(labels.mean()), abs=0.03)
    assert float(weighted.predict(alike)[0]) == pytest.approx(
        float((heavy * labels[:, 0]).sum() / heavy.sum()), abs=0.03
    )
    used = (torch.arange(80) < 60).double()
    without = labels.clone()
    without[60:] = torch.nan
    one, other = (
        fit_forest(INPUTS, labels, KEYS, used, "binary", 0),
        fit_forest(INPUTS, without, KEYS, None, "binary", 0),
    )
    assert torch.equal(one.out_of_bag, other.out_of_bag)


def test_large_tables_have_larger_leaves() -> None:
    assert leaf_size(100) == 2
    values = 10 * LEAVES
    assert values * TREES / leaf_size(values) <= LEAVES


def test_a_stored_forest_is_refused_where_a_path_has_no_end() -> None:
    forest = fit_forest(INPUTS, values_of(INPUTS), KEYS, None, "regression", 0).forest
    again = Forest.read(forest.tensors())
    assert again is not None
    assert torch.equal(again.predict(INPUTS), forest.predict(INPUTS))
    assert Forest.read({}) is None
    inner = int((forest.feature != LEAF).nonzero()[0])
    for name, value in (("right", 0), ("right", 10**6), ("feature", 6), ("feature", -2)):
        wrong = getattr(forest, name).clone()
        wrong[inner] = value
        with pytest.raises(ValueError, match="forest: expected trees of"):
            Forest.read(replace(forest, **{name: wrong}).tensors())


def test_equal_weights_give_the_sample_deviation() -> None:
    values = torch.randn(5, 7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(weighted_spread(values, member_weights(5, None, 2)), values.std(dim=0))
    assert weighted_spread(values[:1], member_weights(1, None, 2)).isnan().all()
    forest = fit_forest(INPUTS, values_of(INPUTS), KEYS, None, "regression", 0).forest
    assert member_weights(6, forest, 2)[:, 0, 0].tolist() == [0.1] * 5 + [0.5]
    pair = weighted_spread(values[:2], member_weights(2, forest, 2))
    torch.testing.assert_close(pair, values[:2].std(dim=0))


def test_the_prediction_is_the_weighted_mean(fitted: tuple[Fitted, Path]) -> None:
    result, folder = fitted
    model = load_model(folder, "cpu")
    assert model.forest is not None
    packed = model.ensemble.pack(SMILES[:9])
    networks = model.learned(model.ensemble.outputs(packed))
    trees = model.learned(model.forest.predict(model.forest.inputs(packed)).float())
    prediction = model.predict(packed)
    torch.testing.assert_close(prediction.mean, (1 - WEIGHT) * networks.mean(dim=0) + WEIGHT * trees)
    assert "random forest, with weight 0.5" in (folder / "README.md").read_text()
    assert result.held_out is not None
    assert result.prediction is not None
    again = predict_smiles(model, result.held_out.smiles)[0]
    torch.testing.assert_close(again.mean, result.prediction.mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(again.spread, result.prediction.spread, rtol=1e-4, atol=1e-5)


def test_intervals_are_calibrated_by_trees_that_did_not_learn_from_a_molecule(
    numbers: list[tuple[str, float]], make_table: MakeTable, tmp_path: Path
) -> None:
    data = read_table(open_table(make_table(numbers)))
    split = split_molecules(data.molecules, data.task, "random")
    model = fit_table(data, split, FitOptions(2, 2, device="cpu"), tmp_path / "training").model
    assert model.forest is not None
    is_val = split.assignment == 1
    val = take(data.molecules, is_val.nonzero()[:, 0])
    packed = model.ensemble.pack(data.molecules.smiles)
    standardized = ((data.molecules.values - model.center) / model.scale).masked_fill(
        (split.assignment == 2)[:, None], torch.nan
    )
    inputs = model.forest.inputs(packed)
    out_of_bag = fit_forest(inputs, standardized, data.molecules.keys, None, "regression", 0).out_of_bag
    folds = make_folds(data.molecules.keys, split.assignment, (0, 1))
    chose = torch.stack([fold.chooses[is_val] for fold in folds for _ in fold.seeds])
    outputs = torch.cat([model.ensemble.outputs(packed), out_of_bag[None]])[:, is_val]
    learned = model.learned(outputs)
    mean = (cross_mean(learned[:2], chose) + learned[2]) / 2
    expected = conformal_scores(val.values, mean, model.combine(outputs, model.compare(val.graphs)).difficulty)
    torch.testing.assert_close(model.scores, expected, rtol=1e-4, atol=1e-4)


def test_labels_with_missing_values_and_columns_of_features(make_table: MakeTable, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    acid = [random.integers(2) for _ in SMILES]
    rows = [
        (one, int("O" in one), "" if row % 3 == 0 else int(acid[row]), 7.0 * acid[row])
        for row, one in enumerate(SMILES)
    ]
    table = make_table(rows, ("smiles", "oxygen", "acid", "ph"))
    data = read_table(open_table(table), targets=["oxygen", "acid"], features=("ph",))
    split = split_molecules(data.molecules, data.task, "random")
    fitted = fit_table(data, split, FitOptions(1, 1, device="cpu"), tmp_path / "training")
    model = fitted.model
    assert model.forest is not None
    assert fitted.prediction is not None
    assert ((fitted.prediction.mean >= 0) & (fitted.prediction.mean <= 1)).all()
    low, high = (predict_smiles(model, SMILES[:4], np.full((4, 1), ph))[0].mean[:, 1] for ph in (0.0, 7.0))
    assert ((high - low) > 0.1).all()  # the forest reads the column
    model.save(tmp_path / "model")
    out = tmp_path / "out.csv"
    predict_table(load_model(tmp_path / "model", "cpu"), open_table(table), out, PredictOptions(workers=2))
    written = [row.values for row in open_table(out).rows()]
    position = open_table(out).position("acid_probability")
    features = np.array([[7.0 * value] for value in acid])
    expected = predict_smiles(model, SMILES, features)[0].mean[:, 1]
    torch.testing.assert_close(
        torch.tensor([float(values[position]) for values in written], dtype=torch.float64),
        expected,
        rtol=1e-4,
        atol=1e-5,
    )
    graphs = model.ensemble.pack(SMILES[:2])
    with pytest.raises(ValueError, match=r"forest: expected \d+ features"):
        model.forest.inputs(graphs.with_values(graphs={GRAPH_ATTR: torch.zeros(2, 0)}))


def test_a_bound_is_learned_as_the_prediction_that_satisfies_it(
    numbers: list[tuple[str, float]], make_table: MakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(inputs, values, *others):  # type: ignore[no-untyped-def]
        seen.append(values)
        return fit_forest(inputs, values, *others)

    monkeypatch.setattr("dgn.molecules.fit.fit_forest", spy)
    data = read_table(open_table(make_table([(s, ">7" if y > 10 else y) for s, y in numbers])))
    split = split_molecules(data.molecules, data.task, "random")
    model = fit_table(data, split, FitOptions(2, 2, device="cpu"), tmp_path / "training").model
    learned = seen[0] * model.scale + model.center
    used, bounded = split.assignment != 2, torch.tensor([y > 10 for _, y in numbers])
    networks = model.learned(model.ensemble.outputs(model.ensemble.pack(data.molecules.smiles))).mean(dim=0)
    torch.testing.assert_close(learned[used & bounded], networks[used & bounded].clamp(min=7), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(learned[used & ~bounded], data.molecules.values[used & ~bounded])
    assert learned[~used].isnan().all()
    assert (learned[used & bounded] > 7.1).any()


def test_a_fit_without_a_forest_has_networks_alone(
    numbers: list[tuple[str, float]], make_table: MakeTable, tmp_path: Path
) -> None:
    data = read_table(open_table(make_table(numbers)))
    split = split_molecules(data.molecules, data.task, "random")
    model = fit_table(data, split, FitOptions(2, 1, device="cpu", forest=False), tmp_path / "training").model
    assert model.forest is None
    assert not forest_text(model)
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model", "cpu").forest is None
    assert model.predict(pack_smiles(SMILES[:3])).mean.shape == (3, 1)  # graphs are enough


def test_graphs_without_descriptors_are_refused(fitted: tuple[Fitted, Path]) -> None:
    with pytest.raises(ValueError, match="pass SMILES, or fit with --no-forest"):
        fitted[0].model.predict(pack_smiles(["CCO"]))


def test_shares_of_atoms_are_those_of_the_networks(fitted: tuple[Fitted, Path]) -> None:
    model = fitted[0].model
    (explanation,) = explain(model, ["CCO"])
    networks = float(model.learned(model.ensemble.outputs(["CCO"])).mean())
    assert explanation.attribution.prediction == pytest.approx(networks, rel=1e-4)
    assert "a forest has the weight 0.5" in explanation.summary


def test_descriptors_that_rdkit_cannot_compute_are_zero() -> None:
    inputs = join_inputs(torch.tensor([[torch.nan, 1.0]]), torch.tensor([[2.0]], dtype=torch.float64))
    assert inputs.tolist() == [[0.0, 1.0, 2.0]]
    assert inputs.dtype == np.float32
    assert as_outputs(torch.tensor([1.0]), True).sigmoid().item() == 1
