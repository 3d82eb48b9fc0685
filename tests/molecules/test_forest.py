"""A forest as tensors: equal to scikit-learn, and honest about molecules that it learned from."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestRegressor

from dgn.molecules import forest as module
from dgn.molecules.columns import Task
from dgn.molecules.forest import (
    LEAF,
    LEAVES,
    TREES,
    FittedForest,
    Forest,
    Inputs,
    as_outputs,
    leaf_size,
    pack_tree,
    teaching_weight,
)

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(80, 6)).astype(np.float32)
KEYS = [str(row) for row in range(80)]


def values_of(inputs: np.ndarray, targets: int = 2) -> torch.Tensor:
    return torch.from_numpy(
        np.stack([inputs[:, 0] + inputs[:, column] ** 2 for column in range(targets)], axis=1)
    ).double()


def fit_forest(
    inputs: Inputs, values: torch.Tensor, keys: list[str], weights: torch.Tensor | None, task: Task, seed: int
) -> FittedForest:
    return module.fit_forest(inputs, values, keys, teaching_weight(values, weights), task, seed)


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
    forest = Forest(feature, number, right, torch.tensor([roots]), torch.tensor([5]))
    others = np.concatenate([inputs, RANDOM.normal(size=(300, 5)).astype(np.float32)])
    np.testing.assert_allclose(forest.predict(others)[:, 0], reference.predict(others), rtol=1e-6, atol=1e-6)


def test_a_feature_at_a_threshold_goes_left() -> None:
    odd = np.nextafter(np.float32(2), np.float32(3))  # halfway to the next number, rounding would go up
    inputs = np.array([odd, odd, np.nextafter(odd, np.float32(3))]).reshape(3, 1)
    tree = RandomForestRegressor(1, bootstrap=False).fit(inputs, [0.0, 0.0, 1.0]).estimators_[0]
    feature, number, right = (torch.from_numpy(part) for part in pack_tree(tree.tree_, 0))
    forest = Forest(feature, number, right, torch.tensor([[0]]), torch.tensor([1]))
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


def test_certain_labels_stay_certain() -> None:
    assert as_outputs(torch.tensor([1.0]), "multi-label").sigmoid().item() == 1
