"""Pairs of molecules: no spelling changes a prediction, the order of the columns does, and splits follow the first."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from rdkit import Chem

from dgn import DGNClassifier, DGNRegressor
from dgn.data.datasets.pairs import join_smiles, pack_pairs
from dgn.data.datasets.smiles import CENTRES, PAIRS, pack_smiles
from dgn.molecules.explain import explain
from dgn.molecules.featurize import featurize
from dgn.molecules.fit import FitOptions, Fitted, fit_table
from dgn.molecules.folder import write_folder
from dgn.molecules.model_io import load_model
from dgn.molecules.predict import PredictOptions, predict_table
from dgn.molecules.rows import TableData, read_table
from dgn.molecules.split import assign_splits, cross_validation, split_molecules
from dgn.molecules.table import open_table
from tests.molecules.conftest import SMILES, MakeTable

SOLVENTS = ("O", "CCO", "c1ccccc1", "CS(C)=O")
QUICK = {"ensemble_size": 1, "epochs": 2, "device": "cpu"}


def pairs() -> list[tuple[str, str, float]]:
    return [(one, SOLVENTS[index % 4], len(one) - 3.0 * (index % 4)) for index, one in enumerate(SMILES)]


def read(make_table: MakeTable, rows: Any = None) -> TableData:
    path = make_table(pairs() if rows is None else rows, ("solute", "solvent", "logS"))
    return read_table(open_table(path), "solute", partner="solvent")


@pytest.fixture(scope="module")
def solvation(tmp_path_factory: pytest.TempPathFactory) -> tuple[Fitted, Path]:
    """A fit to pairs, and its folder."""
    folder = tmp_path_factory.mktemp("pairs")
    table = folder / "table.csv"
    table.write_text("solute,solvent,logS\n" + "".join(f"{a},{b},{y}\n" for a, b, y in pairs()))
    data = read_table(open_table(table), "solute", partner="solvent")
    fitted = fit_table(
        data, split_molecules(data.molecules, data.task, "random"), FitOptions(2, 3, device="cpu"), folder
    )
    write_folder(fitted, folder / "model", "table", data.problems)
    return fitted, folder / "model"


def test_a_pair_is_the_graph_of_both_molecules() -> None:
    texts = ["C=O>OCC", "N>C#N", "CCO>[Na+].[Cl-]"]
    graphs = pack_smiles(texts, featurization=PAIRS)
    for index, text in enumerate(texts):
        first, second = (pack_smiles([part], featurization=CENTRES) for part in text.split(">"))
        pair, count = graphs.select(torch.tensor([index])), first.num_nodes
        assert torch.equal(pair.nodes["x"][:count, :-1], first.nodes["x"])
        assert torch.equal(pair.nodes["x"][count:, :-1], second.nodes["x"])
        assert pair.nodes["x"][:, -1].tolist() == [0] * count + [1] * second.num_nodes
        assert torch.equal(pair.edge_index, torch.cat([first.edge_index, second.edge_index + count], dim=1))
        assert torch.equal(pair.edges["edge_attr"], torch.cat([first.edges["edge_attr"], second.edges["edge_attr"]]))
    assert len(pack_smiles([], featurization=PAIRS)) == 0
    assert torch.equal(featurize(texts, PAIRS).graphs.edge_index, graphs.edge_index)
    single = pack_smiles(["C"], featurization=f"{CENTRES}; morgan")
    assert pack_pairs(single, single).graphs["graph_attr"].shape == (1, 2048)
    with pytest.raises(ValueError, match="expected those of two molecules, such as CCO>O, got 'CCO'"):
        pack_smiles(["CCO"], featurization=PAIRS)


def test_problems_name_the_molecule() -> None:
    texts = ["CO>O", "C((>O", "CO>C((", ">O", "CO>", "CO", "CO>O>C", "CO>CF(F)F", "OC>O"]
    featurized = featurize(texts, PAIRS)
    reason = "impossible valence of fluorine (atom 2 has 3 bonds)"
    assert featurized.problems == [
        "", "RDKit cannot read it", "RDKit cannot read it, second SMILES", "no SMILES", "no SMILES, second SMILES",
        "no SMILES, second SMILES", "RDKit cannot read it", f"{reason}, second SMILES", "",
    ]  # fmt: skip
    assert len(featurized.graphs) == 2
    kept = featurize(texts, PAIRS, "keep")
    assert kept.remarks[7] == f"{reason}, second SMILES"
    assert len(kept.graphs) == 3


def test_spelling_does_not_change_a_prediction_and_the_order_of_columns_does(solvation: tuple[Fitted, Path]) -> None:
    model = solvation[0].model
    chosen = [("C[C@H](N)C(=O)O", "CCO"), ("c1ccncc1C", "CS(C)=O"), ("OCC1CCCCC1", "OCC1CCCCC1"), ("CCN", "O")]
    expected = model.predict([join_smiles(pair) for pair in chosen]).mean
    for seed in range(5):
        spelled = [[Chem.MolToRandomSmilesVect(Chem.MolFromSmiles(s), 1, seed)[0] for s in pair] for pair in chosen]
        torch.testing.assert_close(model.predict([join_smiles(p) for p in spelled]).mean, expected, rtol=0, atol=1e-5)
    swapped = model.predict([join_smiles(pair[::-1]) for pair in chosen]).mean
    assert ((swapped - expected).abs().flatten() > 1e-4).tolist() == [True, True, False, True]


def test_each_molecule_of_a_pair_counts(solvation: tuple[Fitted, Path]) -> None:
    model = solvation[0].model
    outputs = model.predict([f"CCCCO>{solvent}" for solvent in SOLVENTS]).mean.flatten()
    assert len(torch.unique(outputs)) == len(SOLVENTS)
    assert model.experiment.network.readout == "sum-mean"
    comparison = model.domain.compare(model.ensemble.pack(["O>CCCO", "CCCO>O"]))  # type: ignore[union-attr]
    assert comparison.similarity[0] < comparison.similarity[1]


def test_a_folder_and_tables(solvation: tuple[Fitted, Path], make_table: MakeTable, tmp_path: Path) -> None:
    fitted, folder = solvation
    model = load_model(folder, "cpu")
    assert (model.smiles, model.partner) == ("solute", "solvent")
    assert "pairs of molecules, in solute and solvent" in (folder / "README.md").read_text()
    path = make_table([("O", "CCCO"), ("", "CCO"), ("CS(C)=O", "CN")], ("solvent", "solute"))
    predict_table(model, open_table(path), tmp_path / "out.csv")
    rows = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    expected = fitted.model.predict(["CCCO>O"]).mean
    assert float(rows[0]["logS_prediction"]) == pytest.approx(float(expected), rel=1e-4)
    assert (rows[1]["logS_prediction"], rows[1]["problem"]) == ("", "no SMILES, second SMILES")
    assert (rows[0]["solute"], rows[0]["solvent"]) == ("CCCO", "O")
    assert ">" in rows[0]["nearest_training_molecule"]
    other = make_table([("CCCO", "O")], ("a", "b"), "other.csv")
    predict_table(model, open_table(other), tmp_path / "named.csv", PredictOptions("a", partner="b"))
    (named,) = csv.DictReader((tmp_path / "named.csv").read_text().splitlines())
    assert named["logS_prediction"] == rows[0]["logS_prediction"]
    with pytest.raises(ValueError, match="expected the columns solute and solvent of pairs, got a, b; name both"):
        predict_table(model, open_table(other), tmp_path / "no.csv")
    with pytest.raises(ValueError, match="expected the column 'solvent' with the second molecule"):
        predict_table(model, open_table(other), tmp_path / "no.csv", PredictOptions("a"))
    with pytest.raises(ValueError, match="expected one of single molecules, got one of pairs in solute and solvent"):
        explain(model, ["CCO"])


def test_workers_predict_the_same(solvation: tuple[Fitted, Path], make_table: MakeTable, tmp_path: Path) -> None:
    table = open_table(make_table([pair[:2] for pair in pairs()], ("solute", "solvent")))
    for workers in (0, 1):
        predict_table(
            load_model(solvation[1], "cpu"), table, tmp_path / f"{workers}.csv", PredictOptions(workers=workers)
        )
    assert (tmp_path / "0.csv").read_text() == (tmp_path / "1.csv").read_text()


def test_a_single_molecule_model_takes_one_column(fitted: tuple[Fitted, Path], make_table: MakeTable) -> None:
    table = open_table(make_table([("C", "O")], ("smiles", "other")))
    with pytest.raises(ValueError, match="expected one column, as the model reads single molecules, got 'other' too"):
        predict_table(fitted[0].model, table, table.path.with_name("o.csv"), PredictOptions(partner="other"))


def test_splits_follow_the_scaffold_of_the_first_molecule(make_table: MakeTable) -> None:
    """Two molecules of each scaffold, each in two solvents that have other scaffolds."""
    rings = [f"C1{'C' * size}C1{end}" for size in range(1, 21) for end in ("", "O")]
    rows = [(ring, solvent, index) for index, ring in enumerate(rings) for solvent in ("c1ccccc1", "O")]
    molecules = read(make_table, rows).molecules
    for split in (split_molecules(molecules, "regression", "scaffold"), *cross_validation(molecules, "regression", 4)):
        if split.method == "scaffold":
            test = (split.assignment == 2).view(20, 4)
            assert torch.equal(test.all(dim=1), test.any(dim=1))
    assert split.method == "scaffold"


def test_duplicates_are_pairs(make_table: MakeTable) -> None:
    rows = [*pairs(), ("OCC", "O", 1.0), ("CCO", "O", 1.0), ("CCO", "CO", 2.0)]
    data = read(make_table, rows)
    first = len(SMILES) + 2
    assert data.partner == "solvent"
    lines = [line for problem in data.problems if problem.what.startswith("duplicate") for line in problem.lines]
    assert [line for line in lines if line >= first] == [first, first + 1]
    for seed in range(3):
        split = split_molecules(data.molecules, data.task, "random", seed).assignment
        assert split[-3] == split[-2]


def test_splits_are_read_back(solvation: tuple[Fitted, Path], make_table: MakeTable) -> None:
    fitted, folder = solvation
    spelled = [(Chem.MolToSmiles(Chem.MolFromSmiles(a)), b, y) for a, b, y in pairs()][::-1]
    molecules = assign_splits(read(make_table, spelled).molecules, open_table(folder / "splits.csv"))
    names = [("train", "val", "test")[split] for split in fitted.split.tolist()]
    assert molecules.split == tuple(names[::-1])


def test_columns_have_one_use(make_table: MakeTable) -> None:
    table = open_table(make_table(pairs(), ("solute", "solvent", "logS")))
    with pytest.raises(ValueError, match=r"expected distinct ones for SMILES.*got 'solute' twice"):
        read_table(table, "solute", partner="solute")
    with pytest.raises(ValueError, match="expected SMILES in column 'logS'"):
        read_table(table, "solute", partner="logS")


def test_estimators_take_two_columns(tmp_path: Path) -> None:
    x, y = np.array([pair[:2] for pair in pairs()]), np.array([value for *_, value in pairs()])
    model = DGNRegressor(**QUICK, descriptors="morgan").fit(x, y)
    prediction = model.predict(x[:4])
    assert np.abs(prediction - model.predict(x[:4, ::-1])).min() > 1e-4
    model.save(tmp_path / "model")
    np.testing.assert_allclose(
        DGNRegressor.load(tmp_path / "model", "cpu").predict(x[:4].tolist()), prediction, rtol=1e-5
    )
    with pytest.raises(ValueError, match="X: expected SMILES in two columns, as in the fit"):
        model.predict(x[:, 0])
    single = DGNClassifier(**QUICK).fit(x[:, 0], y > 5)
    with pytest.raises(ValueError, match="X: expected SMILES in one column"):
        single.predict(x)


def test_features_and_descriptors_of_pairs(make_table: MakeTable, tmp_path: Path) -> None:
    rows = [(*pair, index / 9) for index, pair in enumerate(pairs())]
    table = open_table(make_table(rows, ("solute", "solvent", "logS", "T")))
    data = read_table(table, "solute", ["logS"], features=["T"], partner="solvent")
    split = split_molecules(data.molecules, data.task, "random")
    options = FitOptions(1, 1, device="cpu", descriptors="morgan")
    fitted = fit_table(data, split, options, tmp_path / "training")
    predict_table(fitted.model, table, tmp_path / "out.csv")
    written = list(csv.DictReader((tmp_path / "out.csv").read_text().splitlines()))
    assert fitted.prediction is not None
    tested = (split.assignment == 2).nonzero()[:, 0].tolist()
    expected = fitted.prediction.mean[:, 0].tolist()
    assert [float(written[row]["logS_prediction"]) for row in tested] == pytest.approx(expected, rel=1e-4)


def test_an_old_folder_has_no_partner(fitted: tuple[Fitted, Path]) -> None:
    assert '"partner"' not in (fitted[1] / "model.json").read_text()
    assert load_model(fitted[1], "cpu").partner is None
    assert replace(fitted[0].model).partner is None
