"""Kernel ridge regression: equal to dense algebra, stored as tensors, honest about what it learned from."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.gaussian_process.kernels import RBF
from sklearn.linear_model import Ridge

from dgn.molecules import kernel_ridge as module
from dgn.molecules.columns import Task
from dgn.molecules.forest import Inputs, teaching_weight
from dgn.molecules.kernel_ridge import (
    CLIP,
    FEWEST,
    MARGIN,
    PENALTIES,
    WIDTH,
    FittedKernelRidge,
    KernelRidge,
    Sums,
    gaussians,
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


def fit(
    inputs: Inputs = INPUTS,
    values: torch.Tensor = VALUES,
    keys: list[str] = KEYS,
    weights: torch.Tensor | None = None,
    task: Task = "regression",
) -> FittedKernelRidge:
    share = torch.full((inputs.shape[1],), inputs.shape[1] ** -0.5)
    return module.fit_kernel_ridge(inputs, share, values, keys, teaching_weight(values, weights), task, 0)


def test_every_penalty_has_the_regression_of_scikit_learn() -> None:
    x, weight = torch.from_numpy(INPUTS).double(), torch.from_numpy(RANDOM.uniform(0.5, 2, 80))
    center = (weight / weight.sum()) @ x
    spread = float((weight * (x - center).square().sum(dim=1)).sum() / weight.sum())
    solutions = solve_ridge(Sums.over(x, VALUES, weight), PENALTIES)
    for penalty, (coefficients, intercepts) in zip(PENALTIES.tolist(), solutions, strict=True):
        reference = Ridge(penalty * spread).fit(x, VALUES, weight)
        np.testing.assert_allclose(coefficients.T, reference.coef_, rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(intercepts, reference.intercept_, rtol=1e-6, atol=1e-9)


def test_with_all_molecules_as_landmarks_it_is_kernel_ridge_regression(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.molecules.kernel_ridge.PENALTIES", PENALTIES[2:3])
    ridge = fit().ridge
    places = ((INPUTS - ridge.center.numpy()) * ridge.scale.numpy()).clip(-CLIP, CLIP) / 6**0.5
    median = np.median(np.square(places[:, None] - places[None]).sum(axis=2)[np.triu_indices(80, 1)])
    kernel = RBF((WIDTH * median / 2) ** 0.5)(places)
    center = np.eye(80) - 1 / 80
    centered = center @ kernel @ center
    penalty = float(PENALTIES[2]) * np.trace(centered) / 80
    dual = np.linalg.solve(centered + penalty * np.eye(80), center @ VALUES.numpy())
    expected = kernel @ (center @ dual) + (VALUES.numpy() - kernel @ (center @ dual)).mean(axis=0)
    np.testing.assert_allclose(ridge.outputs(INPUTS, "regression"), expected, rtol=1e-3, atol=1e-3)


def test_fewer_landmarks_are_different_molecules_and_still_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.molecules.kernel_ridge.LANDMARKS", 30)
    ridge, out_of_fold = fit(keys=[str(row // 2) for row in range(80)])
    assert len(ridge.landmarks) == 30
    at = gaussians(ridge.landmarks.double(), ridge.landmarks) > 0.999
    assert int(at.sum()) == 30
    rows = (ridge.kernel(INPUTS).max(dim=1).values > 0.999).nonzero()[:, 0]
    assert len(set((rows // 2).tolist())) == 30
    assert float((out_of_fold - VALUES).abs().mean()) < 0.5


def test_few_components_keep_the_largest_variance(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.from_numpy(RANDOM.normal(size=(40, 5)) * [1, 9, 1, 5, 1])
    monkeypatch.setattr("dgn.molecules.kernel_ridge.COMPONENTS", 2)
    basis = principal_components(iter(rows.split(7)))
    torch.testing.assert_close(basis.T @ basis, torch.eye(2, dtype=torch.float64))
    kept = (rows @ basis).square().sum() / rows.square().sum()
    assert 0.9 < float(kept) < 1
    assert principal_components(iter([rows[:1]])).shape == (5, 1)


def test_a_function_is_learned() -> None:
    ridge, out_of_fold = fit()
    assert float((ridge.outputs(INPUTS, "regression") - VALUES).abs().mean()) < 0.15
    assert float((out_of_fold - VALUES).abs().mean()) < 0.3
    curved = torch.from_numpy(np.sin(2 * INPUTS[:, :1])).double()
    assert float((fit(INPUTS[:, :1], curved).out_of_fold - curved).abs().mean()) < 0.05


def test_outputs_out_of_fold_do_not_depend_on_the_value_nor_on_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.molecules.kernel_ridge.PENALTIES", PENALTIES[4:5])
    keys = [str(row // 2) for row in range(80)]
    changed = VALUES.clone()
    changed[:2] += 100
    first, second = (fit(values=each, keys=keys) for each in (VALUES, changed))
    torch.testing.assert_close(first.out_of_fold[:2], second.out_of_fold[:2])
    assert (first.out_of_fold - second.out_of_fold).abs().max() > 0.5  # others learned from it
    apart = fit(values=changed)
    assert not torch.allclose(apart.out_of_fold[:2], second.out_of_fold[:2])


def test_molecules_that_teach_nothing_are_predicted_by_the_regression_itself() -> None:
    values = VALUES.clone()
    values[60:] = torch.nan
    ridge, out_of_fold = fit(values=values, keys=[*KEYS[:79], KEYS[0]])
    outputs = ridge.outputs(INPUTS, "regression")
    torch.testing.assert_close(out_of_fold[60:79], outputs[60:79])
    assert (out_of_fold[:60] - outputs[:60]).abs().max() > 1e-3
    assert (out_of_fold[79] - outputs[79]).abs().max() > 1e-6  # a duplicate of one that teaches


def test_values_missing_in_one_target_teach_the_other() -> None:
    values = VALUES.clone()
    values[:, 1] = torch.nan
    values[: FEWEST - 1, 1] = 1.0  # too few
    ridge = fit(values=values).ridge
    alone = fit(values=values[:, :1]).ridge
    torch.testing.assert_close(ridge.outputs(INPUTS, "regression")[:, :1], alone.outputs(INPUTS, "regression"))
    assert not ridge.outputs(INPUTS, "regression")[:, 1].any()


def test_weights_are_those_of_repeated_molecules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dgn.molecules.kernel_ridge._standardization", lambda _: (torch.zeros(6), torch.ones(6)))
    weight = torch.where(torch.arange(80) < 20, 3.0, 1.0)
    twice = torch.cat([torch.arange(80), torch.arange(20), torch.arange(20)])
    keys = [KEYS[row] for row in twice]
    one = fit(weights=weight).ridge
    other = fit(INPUTS[twice], VALUES[twice], keys).ridge
    difference = (one.outputs(INPUTS, "regression") - other.outputs(INPUTS, "regression")).abs().max()
    assert float(difference) < 0.05  # equal weights are none, so that the penalty is that of 80 molecules


@pytest.mark.parametrize("unit", [1e-6, 1e6])
def test_the_unit_of_weights_and_of_inputs_does_not_matter(unit: float) -> None:
    weight = torch.from_numpy(RANDOM.uniform(0.5, 2, 80))
    first, second = (fit(weights=each) for each in (weight, unit * weight))
    torch.testing.assert_close(first.out_of_fold, second.out_of_fold, rtol=1e-4, atol=1e-5)
    scaled = fit((unit * INPUTS).astype(np.float32), weights=weight)
    torch.testing.assert_close(first.out_of_fold, scaled.out_of_fold, rtol=1e-3, atol=1e-4)


def test_an_unknown_input_is_its_mean() -> None:
    inputs = INPUTS.copy()
    inputs[60:, 0] = np.nan
    ridge = fit(inputs).ridge
    assert float(ridge.center[0]) == pytest.approx(float(INPUTS[:60, 0].mean(dtype=np.float64)))
    filled = inputs.copy()
    filled[60:, 0] = float(ridge.center[0])
    torch.testing.assert_close(
        ridge.outputs(inputs, "regression"), ridge.outputs(filled, "regression"), rtol=1e-5, atol=1e-5
    )
    inputs[:, 0] = np.nan
    assert fit(inputs).ridge.scale[0] == 0


def test_predictions_stay_near_the_values_of_training() -> None:
    ridge = fit().ridge
    far = ridge.outputs(100 * INPUTS, "regression")
    width = VALUES.amax(dim=0) - VALUES.amin(dim=0)
    assert (far <= VALUES.amax(dim=0) + MARGIN * width + 1e-5).all()
    assert (far >= VALUES.amin(dim=0) - MARGIN * width - 1e-5).all()
    assert (standardize(100 * INPUTS, ridge.center, ridge.scale).abs() <= CLIP).all()
    constant = np.concatenate([INPUTS, np.ones((80, 1), dtype=np.float32)], axis=1)
    other = fit(constant).ridge
    constant[:, 6] = 50.0  # which training has not seen
    torch.testing.assert_close(
        other.outputs(constant, "regression"), ridge.outputs(INPUTS, "regression"), atol=2e-2, rtol=0
    )


@pytest.mark.parametrize("task", ["multi-label", "multiclass"])
def test_labels_have_calibrated_log_odds(task: Task) -> None:
    generator = np.random.default_rng(3)
    inputs = generator.normal(size=(2000, 4)).astype(np.float32)
    odds = torch.from_numpy(1.5 * inputs[:, :1] - 1).double()
    labels = (torch.from_numpy(generator.uniform(size=(2000, 1))) < odds.sigmoid()).double()
    ridge, out_of_fold = fit(inputs, labels, [str(row) for row in range(2000)], None, task)
    for outputs in (ridge.outputs(inputs, task), out_of_fold):
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
    ridge = fit().ridge
    again = KernelRidge.read(ridge.tensors())
    assert again is not None
    assert torch.equal(again.outputs(INPUTS, "regression"), ridge.outputs(INPUTS, "regression"))
    assert KernelRidge.read({}) is None
    with pytest.raises(ValueError, match="kernel_ridge: expected tensors of shapes"):
        KernelRidge.read(replace(ridge, scale=ridge.scale[:-1]).tensors())
