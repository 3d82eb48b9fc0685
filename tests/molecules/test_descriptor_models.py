"""Members on descriptors: weighed, stored, and honest where they calibrate."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn import load_pretrained
from dgn.data.benchmark import GRAPH_ATTR
from dgn.data.datasets.descriptors import descriptor_widths, parse_descriptors
from dgn.data.datasets.smiles import PAIRS, pack_smiles
from dgn.molecules.calibration import cross_mean, make_folds
from dgn.molecules.conformal import conformal_scores
from dgn.molecules.descriptor_models import (
    DESCRIPTORS,
    IN_DISTANCE,
    NETWORK,
    SHARE,
    DescriptorModels,
    FittedModels,
    distance_factors,
    embed,
    fit_descriptor_models,
    join_inputs,
    member_weights,
)
from dgn.molecules.explain import explain
from dgn.molecules.fit import FitOptions, Fitted, _describe, fit_table
from dgn.molecules.forest import as_outputs
from dgn.molecules.model_card import other_members
from dgn.molecules.model_io import load_model, weighted_spread
from dgn.molecules.predict import PredictOptions, predict_smiles, predict_table
from dgn.molecules.rows import read_table, take
from dgn.molecules.split import split_molecules
from dgn.molecules.stacking import choose_shares
from dgn.molecules.table import open_table
from tests.molecules.conftest import SMILES, MakeTable

KEYS = [str(row) for row in range(80)]


def fit(values: torch.Tensor, weights: torch.Tensor | None = None) -> FittedModels:
    generator = torch.Generator().manual_seed(0)
    width = sum(descriptor_widths(parse_descriptors(DESCRIPTORS)))
    blocks = [torch.randn(80, width, generator=generator), torch.zeros(80, 0), torch.zeros(80, 0)]
    return fit_descriptor_models(blocks, values, KEYS, weights, "regression", 0)


def test_equal_weights_give_the_sample_deviation() -> None:
    values = torch.randn(6, 7, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(weighted_spread(values, member_weights(6, None, 2)), values.std(dim=0))
    assert weighted_spread(values[:1], member_weights(1, None, 2)).isnan().all()
    models = fit(torch.randn(80, 2, dtype=torch.float64)).models
    assert member_weights(7, models, 2)[:, 0, 0].tolist() == pytest.approx([SHARE / 5] * 5 + [SHARE] * 2)
    three = weighted_spread(values[:3], member_weights(3, models, 2))
    torch.testing.assert_close(three, values[:3].std(dim=0))


def test_a_target_of_few_values_has_no_weight() -> None:
    values = torch.randn(80, 2, dtype=torch.float64)
    values[9:, 1] = torch.nan
    assert fit(values).models.weight.tolist() == [[SHARE, 0.0]] * 2
    weights = torch.ones(80, 2)
    weights[9:, 0] = 0
    assert fit(values, weights).models.weight.tolist() == [[0.0, 0.0]] * 2


def test_blocks_count_the_same_in_a_distance_however_wide_they_are() -> None:
    kinds = descriptor_widths(parse_descriptors(DESCRIPTORS))
    factors = distance_factors([2 * sum(kinds), 256, 0])
    squares = [part.square().sum().item() for part in factors.split([*kinds, *kinds, 256])]
    assert squares == pytest.approx([count**2 for count in (*IN_DISTANCE, *IN_DISTANCE, 1.0)], rel=1e-4)


def test_a_target_without_models_keeps_its_networks_whatever_the_shares() -> None:
    values = torch.randn(80, 2, dtype=torch.float64)
    values[9:, 1] = torch.nan
    models = fit(values).models.with_shares(torch.tensor([[0.2, 0.2], [0.5, 0.5], [0.3, 0.3]], dtype=torch.float64))
    torch.testing.assert_close(models.shares, torch.tensor([[0.2, 1.0], [0.5, 0.0], [0.3, 0.0]], dtype=torch.float64))
    again = DescriptorModels.read(models.tensors())
    assert again is not None
    torch.testing.assert_close(again.shares, models.shares)


def test_the_embedding_is_that_of_the_pretrained_network_in_float32() -> None:
    graphs = pack_smiles(SMILES[:7])
    more = graphs.with_values(graphs={GRAPH_ATTR: torch.zeros(7, 3)})
    network = load_pretrained(NETWORK, "cpu")
    torch.testing.assert_close(embed(more), network.embed(graphs))
    assert network.experiment.training.precision == "tf32-true"
    from dgn.molecules.descriptor_models import _network

    assert _network("cpu").experiment.training.precision == "32-true"
    pairs = pack_smiles(["CCO>O"], featurization=PAIRS)
    assert embed(pairs).shape == (1, 0)


def test_the_prediction_is_the_weighted_mean(fitted: tuple[Fitted, Path]) -> None:
    result, folder = fitted
    model = load_model(folder, "cpu")
    models = model.descriptor_models
    assert models is not None
    packed = model.ensemble.pack(SMILES[:9])
    networks = model.learned(model.ensemble.outputs(packed))
    inputs = models.inputs(packed)
    trees = model.learned(models.forest.predict(inputs).float())
    ridge = model.learned(models.ridge.outputs(inputs, "regression"))
    prediction = model.predict(packed)
    kinds = torch.stack([networks.mean(dim=0), trees, ridge])
    torch.testing.assert_close(prediction.mean, (models.shares[:, None] * kinds).sum(dim=0))
    torch.testing.assert_close(models.shares.sum(dim=0), torch.ones(1, dtype=torch.float64))
    chosen = ", ".join(
        f"{name} {float(share):.2f}"
        for name, share in zip(("networks", "forest", "regression"), models.shares, strict=True)
    )
    assert f"prediction chosen by their errors on the validation split: {chosen}" in (folder / "README.md").read_text()
    assert result.held_out is not None
    assert result.prediction is not None
    again = predict_smiles(model, result.held_out.smiles)[0]
    torch.testing.assert_close(again.mean, result.prediction.mean, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(again.spread, result.prediction.spread, rtol=1e-4, atol=1e-5)


def test_intervals_are_calibrated_by_members_that_did_not_learn_from_a_molecule(
    numbers: list[tuple[str, float]], make_table: MakeTable, tmp_path: Path
) -> None:
    data = read_table(open_table(make_table(numbers)))
    split = split_molecules(data.molecules, data.task, "random")
    model = fit_table(data, split, FitOptions(2, 2, device="cpu"), tmp_path / "training").model
    is_val = split.assignment == 1
    val = take(data.molecules, is_val.nonzero()[:, 0])
    packed = model.ensemble.pack(data.molecules.smiles)
    standardized = ((data.molecules.values - model.center) / model.scale).masked_fill(
        (split.assignment == 2)[:, None], torch.nan
    )
    blocks = [_describe(data.molecules, DESCRIPTORS), embed(packed), torch.zeros(len(packed), 0)]
    held_out = fit_descriptor_models(blocks, standardized, data.molecules.keys, None, "regression", 0).held_out
    of_train = standardized.masked_fill(is_val[:, None], torch.nan)
    unseen = fit_descriptor_models(blocks, of_train, data.molecules.keys, None, "regression", 0).held_out
    folds = make_folds(data.molecules.keys, split.assignment, (0, 1))
    chose = torch.stack([fold.chooses[is_val] for fold in folds for _ in fold.seeds])
    outputs = torch.cat([model.ensemble.outputs(packed), held_out])[:, is_val]
    learned, half = model.learned(outputs), folds[0].chooses[is_val]
    networks = cross_mean(learned[:2], chose)
    candidates = torch.cat([networks[None], model.learned(unseen[:, is_val])])
    assert model.descriptor_models is not None
    torch.testing.assert_close(model.descriptor_models.shares, choose_shares(candidates, val.values))
    mean = torch.full_like(networks, torch.nan)
    for part in (half, ~half):
        shares = choose_shares(candidates[:, ~part], val.values[~part])
        mean[part] = shares[0] * networks[part] + shares[1] * learned[2, part] + shares[2] * learned[3, part]
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
    models = model.descriptor_models
    assert models is not None
    assert fitted.prediction is not None
    assert ((fitted.prediction.mean >= 0) & (fitted.prediction.mean <= 1)).all()
    low, high = (predict_smiles(model, SMILES[:4], np.full((4, 1), ph))[0].mean[:, 1] for ph in (0.0, 7.0))
    assert ((high - low) > 0.1).all()  # forest and regression read the column
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
    with pytest.raises(ValueError, match=r"descriptors: expected \[\d+, \d+, 1\] descriptors, embedding and columns"):
        models.inputs(graphs.with_values(graphs={GRAPH_ATTR: torch.zeros(2, 0)}))


def test_a_bound_is_learned_as_the_prediction_that_satisfies_it(
    numbers: list[tuple[str, float]], make_table: MakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    def spy(blocks, values, *others):  # type: ignore[no-untyped-def]
        seen.append(values)
        return fit_descriptor_models(blocks, values, *others)

    monkeypatch.setattr("dgn.molecules.fit.fit_descriptor_models", spy)
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


def test_a_fit_without_them_has_networks_alone(
    numbers: list[tuple[str, float]], make_table: MakeTable, tmp_path: Path
) -> None:
    data = read_table(open_table(make_table(numbers)))
    split = split_molecules(data.molecules, data.task, "random")
    options = FitOptions(2, 1, device="cpu", descriptor_models=False)
    model = fit_table(data, split, options, tmp_path / "training").model
    assert model.descriptor_models is None
    assert not other_members(model)
    model.save(tmp_path / "model")
    assert load_model(tmp_path / "model", "cpu").descriptor_models is None
    assert model.predict(pack_smiles(SMILES[:3])).mean.shape == (3, 1)  # graphs are enough


def test_graphs_without_descriptors_are_refused(fitted: tuple[Fitted, Path]) -> None:
    with pytest.raises(ValueError, match="pass SMILES, or fit with --no-descriptor-models"):
        fitted[0].model.predict(pack_smiles(["CCO"]))


def test_another_network_or_other_sizes_are_refused(fitted: tuple[Fitted, Path]) -> None:
    models = fitted[0].model.descriptor_models
    assert models is not None
    again = DescriptorModels.read(models.tensors())
    assert again is not None
    assert DescriptorModels.read({}) is None
    with pytest.raises(ValueError, match=f"expected the network {NETWORK} of training, got another version"):
        DescriptorModels.read(replace(models, network=models.network + 1).tensors())
    with pytest.raises(ValueError, match="expected equal numbers of inputs"):
        DescriptorModels.read(replace(models, widths=models.widths + 1).tensors())
    with pytest.raises(ValueError, match="expected a forest and a kernel ridge regression, got one"):
        DescriptorModels.read(models.forest.tensors())
    with pytest.raises(ValueError, match=r"expected widths \[3\] and weights \[2, 1\]"):
        DescriptorModels.read(replace(models, weight=models.weight[0]).tensors())
    with pytest.raises(ValueError, match=r"ridge: expected the tensors center, .* got bias; another version of dgn"):
        DescriptorModels.read({"kernel_ridge_bias": models.ridge.bias})


def test_shares_of_atoms_are_those_of_the_networks(fitted: tuple[Fitted, Path]) -> None:
    model = fitted[0].model
    (explanation,) = explain(model, ["CCO"])
    networks = float(model.learned(model.ensemble.outputs(["CCO"])).mean())
    assert explanation.attribution.prediction == pytest.approx(networks, rel=1e-4)
    assert model.descriptor_models is not None
    share = float(model.descriptor_models.shares[0])
    assert f"Shares are those of the networks, {share:.2g} of the prediction." in explanation.summary


def test_inputs_are_side_by_side_in_float32() -> None:
    inputs = join_inputs([torch.tensor([[torch.nan, 1.0]]), torch.tensor([[2.0]], dtype=torch.float64)])
    assert np.nan_to_num(inputs, nan=-1.0).tolist() == [[-1.0, 1.0, 2.0]]
    assert inputs.dtype == np.float32
    assert as_outputs(torch.tensor([1.0]), "binary").sigmoid().item() == 1
