"""Ridge regression: equal to scikit-learn, stored as tensors, honest about what it learned from."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as Reference

from dgn.molecules import ridge as module
from dgn.molecules.columns import Task
from dgn.molecules.forest import Inputs, teaching_weight
from dgn.molecules.ridge import (
    CLIP,
    FEWEST,
    MARGIN,
    PENALTIES,
    FittedRidge,
    Ridge,
    logistic,
    principal_components,
    solve_ridge,
    standardize,
)

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(80, 6)).astype(np.float32)
KEYS = [str(row) for row in range(80)]
SIGNAL = torch.from_numpy(2 * INPUTS[:, :1] - INPUTS[:, 1:2]).double()
VALUES = torch.cat([SIGNAL, -SIGNAL], dim=1) + 0.1 * torch.from_numpy(RANDOM.normal(size=(80, 2)))


def fit_ridge(
    inputs: Inputs,
    widths: list[int],
    values: torch.Tensor,
    keys: list[str],
    weights: torch.Tensor | None,
    task: Task,
    seed: int,
) -> FittedRidge:
    return module.fit_ridge(inputs, widths, values, keys, teaching_weight(values, weights), task, seed)


def test_every_penalty_has_the_regression_of_scikit_learn() -> None:
    x, weight = torch.from_numpy(INPUTS).double(), torch.from_numpy(RANDOM.uniform(0.5, 2, 80))
    coefficients, intercepts = solve_ridge(x, VALUES[:, 0], weight)
    center = (weight / weight.sum()) @ x
    spread = float((weight * (x - center).square().sum(dim=1)).sum() / weight.sum())
    for index, penalty in enumerate(PENALTIES.tolist()):
        reference = Reference(penalty * spread).fit(x, VALUES[:, 0], weight)
        np.testing.assert_allclose(coefficients[:, index], reference.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(intercepts[index], reference.intercept_, rtol=1e-6, atol=1e-9)


def test_few_components_keep_the_largest_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.from_numpy(RANDOM.normal(size=(40, 5)) * [1, 9, 1, 5, 1])
    monkeypatch.setattr("dgn.molecules.ridge.COMPONENTS", 2)
    basis = principal_components(rows.split(7))
    torch.testing.assert_close(basis.T @ basis, torch.eye(2, dtype=torch.float64))
    kept = (rows @ basis).square().sum() / rows.square().sum()
    assert 0.9 < float(kept) < 1
    assert principal_components([rows[:1]]).shape == (5, 1)


def test_a_linear_function_is_learned_and_blocks_weigh_the_same() -> None:
    ridge, out_of_fold = fit_ridge(INPUTS, [6], VALUES, KEYS, None, "regression", 0)
    outputs = ridge.outputs(INPUTS, "regression")
    assert float((outputs - VALUES).abs().mean()) < 0.1
    assert float((out_of_fold - VALUES).abs().mean()) < 0.15
    many = np.concatenate([INPUTS[:, :2], RANDOM.normal(size=(80, 60)).astype(np.float32)], axis=1)
    apart, together = (fit_ridge(many, widths, VALUES, KEYS, None, "regression", 0) for widths in ([2, 60], [62]))
    errors = [float((each.out_of_fold - VALUES).abs().mean()) for each in (apart, together)]
    assert errors[0] < 0.7 * errors[1]


def test_outputs_out_of_fold_do_not_depend_on_the_value_nor_on_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.molecules.ridge.PENALTIES", PENALTIES[4:5])
    keys = [str(row // 2) for row in range(80)]
    changed = VALUES.clone()
    changed[:2] += 100
    first, second = (fit_ridge(INPUTS, [6], each, keys, None, "regression", 0) for each in (VALUES, changed))
    torch.testing.assert_close(first.out_of_fold[:2], second.out_of_fold[:2])
    assert (first.out_of_fold - second.out_of_fold).abs().max() > 0.5  # others learned from it
    apart = fit_ridge(INPUTS, [6], changed, KEYS, None, "regression", 0)
    assert not torch.allclose(apart.out_of_fold[:2], second.out_of_fold[:2])


def test_molecules_that_teach_nothing_are_predicted_by_the_regression_itself() -> None:
    values = VALUES.clone()
    values[60:] = torch.nan
    ridge, out_of_fold = fit_ridge(INPUTS, [6], values, [*KEYS[:79], KEYS[0]], None, "regression", 0)
    outputs = ridge.outputs(INPUTS, "regression")
    torch.testing.assert_close(out_of_fold[60:79], outputs[60:79])
    assert (out_of_fold[:60] - outputs[:60]).abs().max() > 1e-3
    assert (out_of_fold[79] - outputs[79]).abs().max() > 1e-6  # a duplicate of one that teaches


def test_values_missing_in_one_target_teach_the_other() -> None:
    values = VALUES.clone()
    values[:, 1] = torch.nan
    values[: FEWEST - 1, 1] = 1.0  # too few
    ridge = fit_ridge(INPUTS, [6], values, KEYS, None, "regression", 0).ridge
    alone = fit_ridge(INPUTS, [6], values[:, :1], KEYS, None, "regression", 0).ridge
    torch.testing.assert_close(ridge.outputs(INPUTS, "regression")[:, :1], alone.outputs(INPUTS, "regression"))
    assert not ridge.outputs(INPUTS, "regression")[:, 1].any()


def test_weights_are_those_of_repeated_molecules() -> None:
    weight = torch.where(torch.arange(80) < 20, 3.0, 1.0)
    twice = torch.cat([torch.arange(80), torch.arange(20), torch.arange(20)])
    keys = [KEYS[row] for row in twice]
    one = fit_ridge(INPUTS, [6], VALUES, KEYS, weight, "regression", 0).ridge
    other = fit_ridge(INPUTS[twice], [6], VALUES[twice], keys, None, "regression", 0).ridge
    difference = (one.outputs(INPUTS, "regression") - other.outputs(INPUTS, "regression")).abs().max()
    assert float(difference) < 0.05  # inputs are standardized without weights


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_weights_and_of_inputs_does_not_matter(unit: float) -> None:
    weight = torch.from_numpy(RANDOM.uniform(0.5, 2, 80))
    first, second = (fit_ridge(INPUTS, [6], VALUES, KEYS, each, "regression", 0) for each in (weight, unit * weight))
    torch.testing.assert_close(first.out_of_fold, second.out_of_fold, rtol=1e-4, atol=1e-5)
    scaled = fit_ridge((unit * INPUTS).astype(np.float32), [6], VALUES, KEYS, weight, "regression", 0)
    torch.testing.assert_close(first.out_of_fold, scaled.out_of_fold, rtol=1e-3, atol=1e-4)


def test_an_unknown_input_is_its_mean() -> None:
    inputs = INPUTS.copy()
    inputs[60:, 0] = np.nan
    ridge = fit_ridge(inputs, [6], VALUES, KEYS, None, "regression", 0).ridge
    assert float(ridge.center[0]) == pytest.approx(float(INPUTS[:60, 0].mean(dtype=np.float64)))
    filled = inputs.copy()
    filled[60:, 0] = float(ridge.center[0])
    torch.testing.assert_close(
        ridge.outputs(inputs, "regression"), ridge.outputs(filled, "regression"), rtol=1e-5, atol=1e-5
    )
    inputs[:, 0] = np.nan
    assert fit_ridge(inputs, [6], VALUES, KEYS, None, "regression", 0).ridge.scale[0] == 0


def test_predictions_stay_near_the_values_of_training() -> None:
    ridge = fit_ridge(INPUTS, [6], VALUES, KEYS, None, "regression", 0).ridge
    far = ridge.outputs(100 * INPUTS, "regression")
    width = VALUES.amax(dim=0) - VALUES.amin(dim=0)
    assert (far <= VALUES.amax(dim=0) + MARGIN * width + 1e-5).all()
    assert (far >= VALUES.amin(dim=0) - MARGIN * width - 1e-5).all()
    assert (standardize(100 * INPUTS, ridge.center, ridge.scale).abs() <= CLIP).all()
    constant = np.concatenate([INPUTS, np.ones((80, 1), dtype=np.float32)], axis=1)
    other = fit_ridge(constant, [7], VALUES, KEYS, None, "regression", 0).ridge
    constant[:, 6] = 50.0  # which training has not seen
    torch.testing.assert_close(
        other.outputs(constant, "regression"), ridge.outputs(INPUTS, "regression"), atol=2e-2, rtol=0
    )


@pytest.mark.parametrize("task", ["multi-label", "multiclass"])
def test_labels_have_calibrated_log_odds(task: str) -> None:
    generator = np.random.default_rng(3)
    inputs = generator.normal(size=(2000, 4)).astype(np.float32)
    odds = torch.from_numpy(1.5 * inputs[:, :1] - 1).double()
    labels = (torch.from_numpy(generator.uniform(size=(2000, 1))) < odds.sigmoid()).double()
    ridge, out_of_fold = fit_ridge(inputs, [4], labels, [str(row) for row in range(2000)], None, task, 0)  # type: ignore[arg-type]
    for outputs in (ridge.outputs(inputs, task), out_of_fold):  # type: ignore[arg-type]
        probability = outputs.exp() if task == "multiclass" else outputs.sigmoid()
        assert float((probability - odds.sigmoid()).abs().mean()) < 0.04
        assert float(probability.mean()) == pytest.approx(float(labels.mean()), abs=0.01)


def test_log_odds_of_separable_labels_keep_their_signal() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.ones(4), torch.zeros(44)]) + 0.05 * torch.randn(48, generator=generator)
    label = (torch.arange(48) < 4).double()
    slope, offset = logistic(x, label, torch.ones(48))
    odds = slope * x + offset
    target = torch.where(label > 0, 5 / 6, 1 / 46)
    loss = torch.nn.functional.binary_cross_entropy_with_logits(odds.double(), target.double())
    assert (odds[:4] > 1).all()
    assert (odds[4:] < -3).all()
    entropy = torch.nn.functional.binary_cross_entropy(target, target)
    assert float(loss) < 1.02 * float(entropy)  # targets are of two values: hardly more than theirs


def test_log_odds_of_labels_without_a_signal_are_those_of_the_prior() -> None:
    label = (torch.arange(40) % 4 == 0).double()
    slope, offset = logistic(-label, label, torch.ones(40))  # a cross-validation that ranks the wrong way round
    prior = (10 * 11 / 12 + 30 / 32) / 40
    assert (slope, offset) == (0.0, pytest.approx(np.log(prior / (1 - prior))))
    slope, offset = logistic(torch.zeros(40), torch.ones(40), torch.ones(40))
    assert slope == 0
    assert offset == pytest.approx(np.log(41))


def test_a_stored_regression_with_other_shapes_is_refused() -> None:
    ridge = fit_ridge(INPUTS, [6], VALUES, KEYS, None, "regression", 0).ridge
    again = Ridge.read(ridge.tensors())
    assert again is not None
    assert torch.equal(again.outputs(INPUTS, "regression"), ridge.outputs(INPUTS, "regression"))
    assert Ridge.read({}) is None
    with pytest.raises(ValueError, match="ridge: expected a matrix"):
        Ridge.read(replace(ridge, scale=ridge.scale[:-1]).tensors())
