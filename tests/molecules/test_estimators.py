"""The estimators in scikit-learn: parameters, clones, cross-validation, saving and loading."""

from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import cross_val_score

import dgn
from dgn.molecules.columns import Target

QUICK = {"ensemble_size": 1, "epochs": 2, "device": "cpu", "validation_fraction": 0.2}


@pytest.fixture(scope="module")
def regressor(numbers: list[tuple[str, float]]) -> "dgn.DGNRegressor":
    return dgn.DGNRegressor(**QUICK).fit([one for one, _ in numbers], [y for _, y in numbers])


@pytest.fixture(scope="module")
def classifier(numbers: list[tuple[str, float]]) -> "dgn.DGNClassifier":
    return dgn.DGNClassifier(**QUICK).fit(
        [one for one, _ in numbers], ["ring" if "1" in s else "chain" for s, _ in numbers]
    )


def test_parameters_and_clones(regressor: "dgn.DGNRegressor") -> None:
    twin = clone(regressor)
    assert twin.get_params() == regressor.get_params() == {
        **QUICK, "random_state": 0, "search": 0, "descriptors": "", "descriptor_models": True,
    }  # fmt: skip
    assert twin.set_params(epochs=7).epochs == 7
    assert is_regressor(twin)
    assert is_classifier(dgn.DGNClassifier())
    with pytest.raises(NotFittedError):
        twin.predict(["CO"])


def test_regression(regressor: "dgn.DGNRegressor", numbers: list[tuple[str, float]]) -> None:
    smiles = np.array([one for one, _ in numbers[:9]])
    prediction = regressor.predict(smiles)
    assert prediction.shape == (9,)
    np.testing.assert_array_equal(prediction, regressor.predict(smiles[:, None]))
    low, high = regressor.predict_interval(smiles, 0.5)
    assert (low < prediction).all()
    assert (prediction < high).all()
    assert isinstance(regressor.score(smiles, [y for _, y in numbers[:9]]), float)
    assert (regressor.predict_spread(smiles) > 0).all()  # of one network and the members on descriptors
    with pytest.warns(UserWarning, match="intervals of 99.9 % are infinite: they need at least 999 validation molec"):
        low, high = regressor.predict_interval(smiles, 0.999)
    assert np.isinf(high - low).all()
    with pytest.warns(UserWarning, match="2 SMILES cannot be read, their predictions are NaN"):
        gaps = regressor.predict([None, smiles[0], np.nan])
    np.testing.assert_array_equal(np.isnan(gaps), [True, False, True])


def test_the_same_seed_gives_the_same_model(regressor: "dgn.DGNRegressor", numbers: list[tuple[str, float]]) -> None:
    again = clone(regressor).fit([one for one, _ in numbers], [y for _, y in numbers])
    np.testing.assert_array_equal(again.predict(["CCO"]), regressor.predict(["CCO"]))


def test_classification(classifier: "dgn.DGNClassifier") -> None:
    assert classifier.classes_.tolist() == ["chain", "ring"]
    probability = classifier.predict_proba(["CCO", "c1ccccc1"])
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert classifier.predict(["CCO"]).tolist() == [classifier.classes_[int(probability[0, 1] > 0.5)]]


def test_several_targets_with_gaps(numbers: list[tuple[str, float]]) -> None:
    y = np.array([[value, np.nan if n % 3 else -value] for n, (_, value) in enumerate(numbers)])
    prediction = dgn.DGNRegressor(**QUICK).fit([one for one, _ in numbers], y).predict(["CCO", "CC"])
    assert prediction.shape == (2, 2)


class Missing:
    """Like pandas' NA: any comparison returns itself, and it has no truth value."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> "Missing":  # type: ignore[override]
        return self

    def __bool__(self) -> bool:
        raise TypeError("ambiguous")


@pytest.mark.parametrize(
    ("labels", "unknown"),
    [(("chain", "ring"), None), (("0", "1"), np.nan), ((0, 1), np.nan), ((False, True), Missing())],
)
def test_an_unknown_label_is_no_class(numbers: list[tuple[str, float]], labels: tuple[Any, Any], unknown: Any) -> None:
    y = [unknown if n < 2 else labels["1" in one] for n, (one, _) in enumerate(numbers)]
    with pytest.warns(UserWarning, match=r"2 rows: no target value; left out \(indices 0, 1\)"):
        model = dgn.DGNClassifier(**{**QUICK, "epochs": 1}).fit([one for one, _ in numbers], y)
    assert model.classes_.tolist() == list(labels)


def test_cross_validation(numbers: list[tuple[str, float]]) -> None:
    smiles = [one for one, _ in numbers]
    assert np.isfinite(cross_val_score(dgn.DGNRegressor(**QUICK), smiles, [y for _, y in numbers], cv=2)).all()
    rings = np.array(["1" in one for one in smiles])
    scores = cross_val_score(dgn.DGNClassifier(**QUICK), smiles, rings, cv=2, scoring="roc_auc")
    assert np.isfinite(scores).all()


def test_saved_and_loaded(regressor: "dgn.DGNRegressor", classifier: "dgn.DGNClassifier", tmp_path: Path) -> None:
    regressor.save(tmp_path / "r")
    classifier.save(tmp_path / "c")
    twin, other = dgn.DGNRegressor.load(tmp_path / "r", "cpu"), dgn.DGNClassifier.load(tmp_path / "c", "cpu")
    np.testing.assert_array_equal(twin.predict(["CCO"]), regressor.predict(["CCO"]))
    assert other.predict(["CCO"]).tolist() == classifier.predict(["CCO"]).tolist()
    assert twin.get_params() == regressor.get_params()
    with pytest.raises(ValueError, match="use the other class"):
        dgn.DGNRegressor.load(tmp_path / "c", "cpu")
    with pytest.raises(ValueError, match=r"folder: expected a new one, got .*c, which exists; choose another"):
        regressor.save(tmp_path / "c")


@pytest.mark.parametrize(
    "params",
    [
        {"epochs": np.int64(1), "ensemble_size": np.int64(1), "random_state": np.int64(3), "search": np.int64(0)},
        {"random_state": None, "epochs": 1},
        {"random_state": np.random.RandomState(0), "epochs": 1},
    ],
)
def test_numpy_integers_are_parameters(
    numbers: list[tuple[str, float]], tmp_path: Path, params: dict[str, Any]
) -> None:
    model = dgn.DGNRegressor(**{**QUICK, "validation_fraction": np.float32(0.2), **params})
    model.fit([one for one, _ in numbers[:30]], [y for _, y in numbers[:30]]).save(tmp_path)
    loaded = dgn.DGNRegressor.load(tmp_path, "cpu").get_params()
    assert loaded["epochs"] == loaded["ensemble_size"] == 1
    assert loaded["random_state"] == (3 if params["random_state"] == 3 else None)


@pytest.mark.parametrize(
    "labels", [["0", "1"], ["01", "1"], [0, 1], [-0.5, 2.0], [False, True], np.array(["a", "b"], dtype=object)]
)
def test_labels_survive_saving(classifier: "dgn.DGNClassifier", tmp_path: Path, labels: Any) -> None:
    other = copy(classifier)
    other.classes_ = np.array(labels)
    low, high = map(str, labels)
    other.model_ = replace(classifier.model_, targets=(Target("y", (low, high)),))
    other.save(tmp_path)
    classes = dgn.DGNClassifier.load(tmp_path, "cpu").classes_.tolist()
    assert classes == list(labels)
    assert [type(one) for one in classes] == [type(one) for one in labels]


def test_labels_are_sorted_whichever_is_the_positive_one(classifier: "dgn.DGNClassifier", tmp_path: Path) -> None:
    """``dgn fit`` takes active for the positive one; scikit-learn reads probabilities in the order of the labels."""
    flipped = replace(classifier.model_, targets=(Target("y", ("inactive", "active")),), facts={})
    flipped.save(tmp_path / "fit")
    loaded = dgn.DGNClassifier.load(tmp_path / "fit", "cpu")
    loaded.save(tmp_path / "again")
    for one in (loaded, dgn.DGNClassifier.load(tmp_path / "again", "cpu")):
        assert one.classes_.tolist() == ["active", "inactive"]
        np.testing.assert_array_equal(one.predict_proba(["CCO"])[:, ::-1], classifier.predict_proba(["CCO"]))


def test_the_shape_of_predictions_survives_saving(regressor: "dgn.DGNRegressor", tmp_path: Path) -> None:
    other = copy(regressor)
    other._flat = False
    other.save(tmp_path)
    assert dgn.DGNRegressor.load(tmp_path, "cpu").predict(["CO"]).shape == other.predict(["CO"]).shape == (1, 1)


def test_a_multi_label_model_is_refused_by_both_estimators(classifier: "dgn.DGNClassifier", tmp_path: Path) -> None:
    replace(classifier.model_, task="multi-label").save(tmp_path)
    for kind in (dgn.DGNClassifier, dgn.DGNRegressor):
        with pytest.raises(ValueError, match=r"got one for multi-label; use dgn\.molecules"):
            kind.load(tmp_path, "cpu")


def test_facts_that_are_not_json_write_nothing(regressor: "dgn.DGNRegressor", tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="JSON"):
        replace(regressor.model_, facts={"odd": object()}).save(tmp_path)
    assert not list(tmp_path.iterdir())


def test_unreadable_smiles_are_warned_of(regressor: "dgn.DGNRegressor", numbers: list[tuple[str, float]]) -> None:
    with pytest.warns(UserWarning, match=r"1 SMILES cannot be read.*indices 1"):
        assert np.isnan(regressor.predict(["CO", "C("])).tolist() == [False, True]
    smiles, y = [*(one for one, _ in numbers[:30]), "C("], [*(y for _, y in numbers[:30]), 1.0]
    with pytest.warns(UserWarning, match=r"RDKit cannot read the SMILES; left out \(index 30\)"):
        dgn.DGNRegressor(**{**QUICK, "epochs": 1}).fit(smiles, y)


def test_an_unreadable_molecule_has_no_class(classifier: "dgn.DGNClassifier") -> None:
    with pytest.warns(UserWarning, match="indices 0"), pytest.raises(ValueError, match="got others"):
        classifier.predict(["C("])


def test_wrong_input_is_refused() -> None:
    model = dgn.DGNRegressor(**QUICK)
    with pytest.raises(TypeError, match="put it into a list"):
        model.fit("CCO", [1.0])
    with pytest.raises(TypeError, match="pass one column"):
        model.fit([["C", "N", "O"]], [1.0])
    with pytest.raises(ValueError, match="expected 2 values"):
        model.fit(["C", "CC"], [1.0])
    with pytest.raises(ValueError, match="got a constant"):
        model.fit(["C", "CC"], [1.0, 1.0])
    with pytest.raises(ValueError, match="got only NaN"):
        model.fit(["C", "CC"], [np.nan, np.nan])
    with pytest.raises(ValueError, match=r"y: expected numbers, got others: .*'a'; for classes use"):
        model.fit(["C", "CC"], ["a", "b"])
    with pytest.raises(TypeError, match="X: expected SMILES, got 3 at index 1"):
        model.fit(["C", 3], [1.0, 2.0])
    with pytest.raises(ValueError, match="got infinity"):
        model.fit(["C", "CC"], [1.0, np.inf])
    with pytest.raises(ValueError, match="expected one label of 2 to 50 classes per molecule, got 1 classes"):
        dgn.DGNClassifier(**QUICK).fit(["C", "CC", "CCC"], [1, 1, 1])
    with pytest.raises(TypeError, match=r"epochs: expected an integer, got 1\.5"):
        dgn.DGNRegressor(epochs=1.5).fit(["C", "CC"], [1.0, 2.0])
    with pytest.raises(ValueError, match="validation_fraction: expected between 0 and 1"):
        dgn.DGNRegressor(validation_fraction=1.5).fit(["C" * n for n in range(1, 20)], np.arange(19.0))
