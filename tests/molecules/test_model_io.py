"""The folder of a model: complete, bitwise identical predictions when loaded, and no code executed."""

import json
import pickle
import random
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from rdkit import Chem

from dgn.data.datasets.smiles import pack_smiles, parse_smiles
from dgn.molecules.columns import Target
from dgn.molecules.featurize import featurize
from dgn.molecules.fit import FitOptions, Fitted, fit_table
from dgn.molecules.folder import check_free, write_folder
from dgn.molecules.model_io import Model, load_model
from dgn.molecules.plots import draw_parity, draw_roc
from dgn.molecules.predict import predict_smiles
from dgn.molecules.rows import read_table
from dgn.molecules.split import split_molecules
from dgn.molecules.table import open_table
from dgn.training.run_folder import seal
from tests.molecules.conftest import MakeTable

DATA = Path(__file__).parents[3] / "shared" / "data" / "moleculenet"
GRAPHS = ["CCO", "c1ccccc1CN", "[Na]", "[Na+].[Cl-]"]


def test_the_folder_is_complete(fitted: tuple[Fitted, Path]) -> None:
    result, folder = fitted
    assert sorted(path.name for path in folder.iterdir()) == [
        "README.md", "model.json", "parity.png", "rows.csv", "splits.csv", "weights.safetensors",
    ]  # fmt: skip
    card = (folder / "README.md").read_text()
    assert "85 rows; 67 train, 8 val, 9 test" in card
    assert "1 row: RDKit cannot read the SMILES; left out (line 86)" in card
    assert "Intervals are infinite: 8 validation molecules are too few." in card
    rows = (folder / "rows.csv").read_text().splitlines()
    assert rows[0] == "line,what,done"
    assert rows[-1] == "86,RDKit cannot read the SMILES,left out"
    facts = json.loads((folder / "model.json").read_text())["facts"]
    assert facts["metrics"]["test"]["mean"]["mae"] == pytest.approx(
        result.model.facts["metrics"]["test"]["mean"]["mae"]
    )
    assert facts["metrics"]["test"]["mean"]["width"] is None  # infinite


def test_a_loaded_model_predicts_the_same(fitted: tuple[Fitted, Path]) -> None:
    result, folder = fitted
    one, other = result.model.predict(GRAPHS), load_model(folder, "cpu").predict(GRAPHS)
    assert torch.equal(one.mean, other.mean)
    assert torch.equal(one.spread, other.spread)
    assert (one.spread > 0).all()


def test_all_smiles_of_a_molecule_give_one_prediction(fitted: tuple[Fitted, Path]) -> None:
    spellings = ["C[C@H](N)CCc1ccncc1/C=C/F", "F/C=C/c1cnccc1CC[C@H](C)N", "N[C@H](C)CCc1ccncc1/C=C/F"]
    first, second, mirrored = predict_smiles(fitted[0].model, spellings)[0].mean[:, 0].tolist()
    same = [Chem.CanonSmiles(one) for one in spellings]
    assert (same[0] == same[1], same[0] == same[2]) == (True, False)
    assert first == pytest.approx(second, rel=1e-5)
    assert abs(first - mirrored) > 1e-4


def spelling_error(model: Model, smiles: Sequence[str]) -> float:
    """The largest difference between predictions for five SMILES of each molecule, in standard deviations."""
    molecules = [parse_smiles(one) for one in smiles]
    spellings = [Chem.MolToSmiles(molecule, doRandom=True) for _ in range(5) for molecule in molecules]
    prediction, problems = predict_smiles(model, [*smiles, *spellings])
    assert not any(problems)
    means = (prediction.mean / model.scale).view(6, -1)
    return float((means - means[0]).abs().max())


def test_predictions_do_not_depend_on_the_spelling(fitted: tuple[Fitted, Path]) -> None:
    symmetric = [
        "c1cncnc1",
        "c1ccccc1",
        "C1CC1",
        "C12C3C4C1C5C2C3C45",
        "CC(C)(C)C",
        "c1ccc2ccccc2c1",
        "O=C1C=CC(=O)C=C1",
    ]
    assert spelling_error(fitted[0].model, [*symmetric, "C[C@H](N)C(=O)O", "F/C=C/F", "C[C@H]1CC[C@@H](O)CC1"]) < 1e-5


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="the tables of MoleculeNet are not in this repository")
def test_a_thousand_molecules_have_one_prediction_each(
    fitted: tuple[Fitted, Path], numbers: list[tuple[str, float]], make_table: MakeTable, tmp_path: Path
) -> None:
    smiles: list[str] = []
    for name in ("delaney", "lipo", "clintox", "sider"):
        table = open_table(DATA / f"{name}.csv.gz")
        rows = [row.values[table.position("smiles")] for row in islice(table.rows(), 300)]
        usable = featurize(rows).problems
        smiles += [one for one, problem in zip(rows, usable, strict=True) if not problem][:260]
    assert len(smiles) >= 1000
    data = read_table(open_table(make_table(numbers)))
    options = FitOptions(2, 2, device="cpu", descriptor_models=False)  # descriptors would take minutes
    networks = fit_table(data, split_molecules(data.molecules, data.task, "random"), options, tmp_path / "training")
    assert spelling_error(networks.model, smiles) < 1e-5
    assert spelling_error(fitted[0].model, smiles[::15]) < 1e-5


def test_a_prediction_does_not_depend_on_the_batch(fitted: tuple[Fitted, Path]) -> None:
    model = fitted[0].model
    together = model.predict(GRAPHS).mean
    alone = torch.cat([model.predict(one).mean for one in GRAPHS])
    torch.testing.assert_close(together, alone, rtol=1e-4, atol=1e-4)
    assert model.predict(pack_smiles([])).mean.shape == (0, 1)


class Bomb:
    def __reduce__(self) -> Any:
        return (Path.touch, (Path("exploded"),))


def test_loading_executes_no_code(fitted: tuple[Fitted, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(fitted[1], tmp_path / "m")
    (tmp_path / "m" / "weights.safetensors").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(ValueError, match=r"weights.safetensors: expected a file of 'dgn model 2'"):
        load_model(tmp_path / "m", "cpu")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "dgn model 1"}, "got format 'dgn model 1'; train or fit it again with this version of dgn"),
        ({"preprocessing": {"directions": "other"}}, "expected preprocessing as in this version of dgn, .* got"),
        ({"table": {"task": "magic"}}, "expected one of"),
        ({"table": {}}, "expected a model of a table of molecules, got KeyError.*; 'dgn fit' writes one"),
        ({"experiment": {"name": "x"}}, "data"),
        ({"members": 3}, "got ValueError.*3 members"),
        ({"members": 1}, "got ValueError.*1 members"),
        ({"members": 0}, "got ValueError.*0 members"),
        ({"members": float("inf")}, "cannot convert float infinity to integer"),
    ],
)
def test_a_changed_configuration_is_refused(
    fitted: tuple[Fitted, Path], tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    """Even with a checksum that fits."""
    shutil.copytree(fitted[1], tmp_path / "m")
    path = tmp_path / "m" / "model.json"
    changed = json.loads(path.read_text()) | change
    path.write_text(json.dumps(changed))
    with pytest.raises(ValueError, match=r"model\.json: expected (checksum|'dgn model 2')"):
        load_model(tmp_path / "m", "cpu")
    path.write_text(seal(changed))
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path / "m", "cpu")


def test_a_calibration_of_other_targets_is_refused(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    replace(fitted[0].model, scale=torch.ones(3, dtype=torch.float64)).save(tmp_path)
    with pytest.raises(ValueError, match=r"calibration for 1 outputs, got networks for 1 and .* shapes \[\[1\], \[3\]"):
        load_model(tmp_path, "cpu")


def test_smiles_are_predicted_as_their_graphs_and_unreadable_ones_refused(fitted: tuple[Fitted, Path]) -> None:
    model, smiles = fitted[0].model, ["C[C@H](N)O", "CCO"]
    assert torch.equal(model.predict(smiles).mean, predict_smiles(model, smiles)[0].mean)
    assert model.predict("CCO").mean.shape == (1, 1)
    with pytest.raises(ValueError, match=r"smiles: expected a molecule that RDKit can read, got 'C\('"):
        model.predict(["CCO", "C("])


def test_a_changed_byte_is_refused_or_changes_no_prediction(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    folder, draw, refused = tmp_path / "m", random.Random(0), 0
    shutil.copytree(fitted[1], folder)
    expected = load_model(folder, "cpu").predict(GRAPHS).mean
    contents = {path: path.read_bytes() for path in (folder / "model.json", folder / "weights.safetensors")}
    for flip in range(200):
        path = list(contents)[flip % 2]
        changed = bytearray(contents[path])
        changed[draw.randrange(len(changed))] ^= 1 << draw.randrange(8)
        path.write_bytes(bytes(changed))
        try:
            prediction = load_model(folder, "cpu").predict(GRAPHS).mean
        except ValueError:
            refused += 1
        else:
            assert torch.equal(prediction, expected)
        path.write_bytes(contents[path])
    assert refused > 150  # a changed space says the same


def test_damaged_weights_are_refused(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    shutil.copytree(fitted[1], tmp_path / "m")
    path = tmp_path / "m" / "weights.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(ValueError, match="corrupt"):
        load_model(tmp_path / "m", "cpu")


def test_folders_that_exist_or_are_empty(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="which exists"):
        check_free(fitted[1])
    (tmp_path / "thesis.txt").touch()
    with pytest.raises(ValueError, match=r"with thesis\.txt in it"):
        check_free(tmp_path)
    with pytest.raises(FileNotFoundError, match="'dgn fit' write one"):
        load_model(tmp_path)


def test_files_of_an_unfinished_fit_are_replaced(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    (tmp_path / "rows.csv").touch()
    with pytest.raises(ValueError, match=r"with rows\.csv in it"):
        check_free(tmp_path)
    (tmp_path / "training" / "seed-0").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"with rows\.csv in it"):
        check_free(tmp_path)
    (tmp_path / "training" / "diary.txt").touch()
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(ValueError, match="with training in it"):
        check_free(tmp_path)  # a folder of that name may be another's
    (tmp_path / "rows.csv").touch()
    (tmp_path / "training" / "seed-0" / "checkpoint.safetensors").touch()
    (tmp_path / ".dgn-0123abcd").mkdir()
    check_free(tmp_path)
    (tmp_path / "rows.csv.old").touch()
    with pytest.raises(ValueError, match=r"with rows\.csv\.old in it"):
        check_free(tmp_path)
    write_folder(fitted[0], tmp_path, "table", ())
    assert not (tmp_path / "rows.csv").exists()
    assert not (tmp_path / "training").exists()


def test_names_with_dollars_are_no_formulas(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    model, held_out, prediction = fitted[0][:3]
    assert held_out is not None
    assert prediction is not None
    named = replace(model, targets=(Target("price_$_per_$"),))
    draw_parity(named, held_out.values, prediction, 0.9, tmp_path / "parity.png")
    draw_roc(named, (held_out.values > 5).double(), prediction, tmp_path / "roc.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parity.png", "roc.png"]
