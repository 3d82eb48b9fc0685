"""``dgn.load_model`` loads what ``dgn train`` and ``dgn fit`` wrote."""

import shutil
from pathlib import Path

import pytest
import torch

import dgn
from dgn.molecules.fit import FitOptions, fit_table
from dgn.molecules.folder import write_folder
from dgn.molecules.rows import read_table
from dgn.molecules.split import split_molecules
from dgn.molecules.table import open_table
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment


def test_the_model_of_a_run_is_loaded_from_any_folder(tmp_path: Path) -> None:
    train(make_experiment(), make_benchmark(), [7], tmp_path / "run", "cpu")
    shutil.copytree(tmp_path / "run" / "seed-7" / "model", tmp_path / "travelled")
    one, other = (dgn.load_model(tmp_path / name, "cpu") for name in ("run/seed-7", "travelled"))
    graphs = make_benchmark().graphs
    assert torch.equal(one.predict(graphs), other.predict(graphs))
    assert isinstance(other.network, torch.nn.Module)
    assert not other.network.training


def test_the_model_of_a_table_is_loaded_and_predicts_smiles(tmp_path: Path) -> None:
    pytest.importorskip("rdkit", reason="RDKit is optional")
    rows = "".join(f"{'C' * n}{end},{n}\n" for n in range(1, 9) for end in ("O", "N", "F"))
    (tmp_path / "table.csv").write_text(f"smiles,y\n{rows}")
    data = read_table(open_table(tmp_path / "table.csv"))
    split, options = split_molecules(data.molecules, data.task, "random"), FitOptions(2, 1, device="cpu")
    fitted = fit_table(data, split, options, tmp_path / "model" / "training")
    write_folder(fitted, tmp_path / "model", "table", data.problems)
    model = dgn.load_model(tmp_path / "model", "cpu")
    assert torch.equal(model.predict(["CCO", "CN"]).mean, fitted.model.predict(["CCO", "CN"]).mean)
    assert isinstance(model.network, torch.nn.Module)
