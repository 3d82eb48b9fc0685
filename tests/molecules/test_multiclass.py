"""Targets of three or more classes: softmax, scores, splits, tables and estimators."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score

from dgn import DGNClassifier, DGNRegressor
from dgn.molecules.columns import Target
from dgn.molecules.explain import explain
from dgn.molecules.fit import FitOptions, Fitted, fit_table
from dgn.molecules.folder import write_folder
from dgn.molecules.model_io import load_model
from dgn.molecules.predict import PredictOptions, predict_table
from dgn.molecules.rows import read_table
from dgn.molecules.scores import score_multiclass
from dgn.molecules.split import split_molecules, unequal_targets
from dgn.molecules.table import open_table
from dgn.molecules.weights import balanced_weights
from tests.molecules.conftest import SMILES, MakeTable

NAMES = ("acid", "chain", "ring")


def name_of(smiles: str) -> str:
    return "acid" if "C(=O)O" in smiles else "ring" if "1" in smiles else "chain"


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitted, Path]:
    """A fit to three classes, and its folder."""
    folder = tmp_path_factory.mktemp("classes")
    table = folder / "table.csv"
    table.write_text("smiles,kind\n" + "".join(f"{one},{name_of(one)}\n" for one in SMILES))
    data = read_table(open_table(table))
    assert (data.task, data.targets) == ("multiclass", (Target("kind", NAMES),))
    split = split_molecules(data.molecules, data.task, "random")
    fitted = fit_table(data, split, FitOptions(2, 12, device="cpu"), folder / "model" / "training")
    write_folder(fitted, folder / "model", "table", data.problems)
    return fitted, folder / "model"


def test_classes_are_learned(classes: tuple[Fitted, Path]) -> None:
    fitted, _ = classes
    prediction = fitted.model.predict(list(SMILES))
    torch.testing.assert_close(prediction.mean.sum(dim=1), torch.ones(len(SMILES), dtype=torch.float64))
    right = [NAMES[best] == name_of(one) for best, one in zip(prediction.mean.argmax(dim=1), SMILES, strict=True)]
    assert np.mean(right) > 0.8
    scores = fitted.model.facts["metrics"]["test"]["targets"]["kind"]
    assert scores["accuracy"] > scores["accuracy of the commonest class"]


def test_a_folder_keeps_its_classes(classes: tuple[Fitted, Path]) -> None:
    fitted, folder = classes
    model = load_model(folder, "cpu")
    torch.testing.assert_close(model.predict(["CCO"]).mean, fitted.model.predict(["CCO"]).mean)
    card = (folder / "README.md").read_text()
    for text in ("the probabilities of kind = acid, chain, ring", "balanced accuracy", "log loss", "roc.png"):
        assert text in card
    assert (folder / "roc.png").exists()
    rows = list(csv.DictReader((folder / "splits.csv").read_text().splitlines()))
    assert [row["kind"] for row in rows] == [name_of(row["smiles"]) for row in rows]
    tested = [row for row in rows if row["split"] == "test"]
    assert {row["kind_prediction"] for row in tested} <= set(NAMES)
    assert fitted.prediction is not None
    best = [NAMES[label] for label in fitted.prediction.mean.argmax(dim=1)]
    assert [row["kind_prediction"] for row in tested] == best


def test_tables_have_a_class_and_its_probabilities(classes: tuple[Fitted, Path], make_table: MakeTable) -> None:
    path = make_table([("CCCO",), ("C((",)], ("smiles",))
    out = path.with_name("out.csv")
    predict_table(load_model(classes[1], "cpu"), open_table(path), out, PredictOptions())
    good, bad = csv.DictReader(out.read_text().splitlines())
    names = [f"kind_probability_{name}" for name in NAMES]
    assert list(good)[1:6] == ["kind_prediction", "kind_spread", *names]
    probabilities = [float(good[name]) for name in names]
    assert sum(probabilities) == pytest.approx(1, abs=1e-5)
    assert good["kind_prediction"] == NAMES[int(np.argmax(probabilities))]
    assert float(good["kind_spread"]) > 0
    assert [bad[name] for name in ("kind_prediction", "kind_spread", *names)] == [""] * 5


def test_damaged_classes_are_refused(classes: tuple[Fitted, Path], tmp_path: Path) -> None:
    from dataclasses import replace

    two = replace(classes[0].model, targets=(Target("kind", ("acid", "chain")),))
    two.save(tmp_path)
    with pytest.raises(ValueError, match="classes: expected three or more"):
        load_model(tmp_path, "cpu")


def test_scores_are_those_of_scikit_learn() -> None:
    generator = torch.Generator().manual_seed(0)
    probability = torch.rand(60, 4, generator=generator).double().softmax(dim=1)
    truth = torch.randint(4, (60,), generator=generator).double()
    scores = score_multiclass(Target("y", tuple("abcd")), truth, probability, truth)["y"]
    y, p = truth.long().numpy(), probability.numpy()
    assert scores["balanced accuracy"] == pytest.approx(balanced_accuracy_score(y, p.argmax(axis=1)))
    assert scores["log loss"] == pytest.approx(log_loss(y, p))
    assert scores["roc-auc"] == pytest.approx(roc_auc_score(y, p, multi_class="ovr"))
    alone = score_multiclass(Target("y", tuple("abcd")), torch.zeros(60), probability, truth)["y"]
    assert np.isnan(alone["roc-auc"])


def test_all_classes_have_the_same_total_weight() -> None:
    labels = torch.tensor([0.0] * 6 + [1.0] * 3 + [2.0])[:, None]
    weight = balanced_weights(labels, labels)
    assert [float(weight[labels == label].sum()) for label in range(3)] == pytest.approx([10 / 3] * 3)


def labelled(make_table: MakeTable, names: list[str]) -> Any:
    return read_table(open_table(make_table(list(zip(SMILES, names, strict=True)))), task="multiclass").molecules


def test_training_has_every_class_however_rare(make_table: MakeTable) -> None:
    names = ["a" if index % 2 else "b" for index in range(len(SMILES))]
    for row in (3, 40):  # a class of one molecule, wherever it is
        rare = labelled(make_table, [*names[:row], "c", *names[row + 1 :]])
        for seed in range(5):
            split = split_molecules(rare, "multiclass", "random", seed)
            assert split.assignment[row] == 0
            assert {int(label) for label in rare.values[split.assignment == 2, 0]} == {0, 1}


def test_a_scaffold_split_without_a_class_is_random(make_table: MakeTable) -> None:
    """Only pyridines are of the third class, which a scaffold split keeps out of training for some seed."""
    names = ["c" if "ncc" in one else "a" if index % 2 else "b" for index, one in enumerate(SMILES)]
    molecules = labelled(make_table, names)
    splits = [split_molecules(molecules, "multiclass", None, seed) for seed in range(8)]
    assert all(len(molecules.values[split.assignment == 0].unique()) == 3 for split in splits)
    assert any("1 of 3 classes missing for train; split at random" in "".join(each.notes) for each in splits)


def test_classes_that_differ_between_the_splits_are_named() -> None:
    values, split = torch.tensor([0.0] * 40 + [1.0] * 40 + [2.0] * 40)[:, None], torch.zeros(120)
    split[20:40], split[80:] = 1, 2
    (note, *_) = unequal_targets(values, split, [Target("y", ("a", "b", "c"))])
    assert note.startswith("y = a differs between the splits: train 33.3 %, val 100 %: val scores")


def test_the_classifier_takes_several_classes(tmp_path: Path) -> None:
    y = np.array([{"acid": 7, "ring": -1, "chain": 3}[name_of(one)] for one in SMILES])
    model = DGNClassifier(1, 2, device="cpu", class_weight="balanced").fit(SMILES, y)
    probability = model.predict_proba(SMILES[:9])
    assert model.classes_.tolist() == [-1, 3, 7]
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    assert model.predict(SMILES[:9]).tolist() == model.classes_[probability.argmax(axis=1)].tolist()
    assert 0 <= model.score(SMILES, y) <= 1
    model.save(tmp_path / "model")
    loaded = DGNClassifier.load(tmp_path / "model", "cpu")
    assert loaded.classes_.tolist() == [-1, 3, 7]
    np.testing.assert_allclose(loaded.predict_proba(SMILES[:9]), probability)
    with pytest.raises(ValueError, match="expected a model for regression, got one for multiclass; use the other"):
        DGNRegressor.load(tmp_path / "model")


def test_the_classifier_reads_a_folder_of_dgn_fit(classes: tuple[Fitted, Path]) -> None:
    model = DGNClassifier.load(classes[1], "cpu")
    assert model.classes_.tolist() == list(NAMES)
    np.testing.assert_allclose(model.predict_proba(["CCCO"]), classes[0].model.predict(["CCCO"]).mean.numpy())


def test_shares_of_several_classes_are_refused(classes: tuple[Fitted, Path]) -> None:
    with pytest.raises(ValueError, match="got one of acid, chain, ring; fit one to a column of one class"):
        explain(classes[0].model, ["CCO"])
