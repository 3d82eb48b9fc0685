"""Default settings by size, task, and whether a class is rare."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from dgn.molecules import defaults
from dgn.molecules.defaults import default_experiment, is_rare, rare_experiment
from dgn.molecules.fit import FitOptions, fit_table
from dgn.molecules.folder import write_folder
from dgn.molecules.model_io import load_model
from dgn.molecules.rows import read_table
from dgn.molecules.split import split_molecules
from dgn.molecules.table import open_table
from dgn.plot.attribution import attribute


@pytest.mark.parametrize("molecules", [500, 9_999, 10_000])
def test_rare_classes_of_large_tables_have_their_own_settings(molecules: int) -> None:
    usual, rare = (default_experiment(molecules, (3, 4), "t", "multi-label", rare=flag) for flag in (False, True))
    assert rare == (rare_experiment((3, 4), "t") if molecules == 10_000 else usual)
    assert usual != rare_experiment((3, 4), "t")


def test_missing_values_make_no_class_rare() -> None:
    values = torch.full((1_000, 2), torch.nan)
    values[:40, 0], values[:20, 1] = 0, 1
    assert not is_rare(values, "multi-label")
    values[:, 0] = 0
    values[5:, 1] = 0
    assert is_rare(values, "multi-label")
    assert not is_rare(values, "regression")


@pytest.mark.parametrize("active", [1, 2])
def test_a_fit_checks_for_a_rare_class_in_its_training_split(
    make_table: Callable[..., Path], active: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(defaults, "LARGE", 100)
    rows = [("C" * length + "O", int(length <= active), "train") for length in range(1, 101)]
    rows += [("N" + "C" * length, length % 2, name) for length in (1, 2) for name in ("val", "test")]
    data = read_table(open_table(make_table(rows, ("smiles", "y", "split"))), split="split")
    split, options = split_molecules(data.molecules, data.task), FitOptions(ensemble_size=2, epochs=2, device="cpu")
    fitted = fit_table(data, split, options, tmp_path / "model" / "training")
    network = fitted.model.experiment.network
    assert network.aggregators == (("mean", "dx1") if active == 1 else ("mean", "max", "min", "dx1", "dx2"))

    write_folder(fitted, tmp_path / "model", "table", data.problems)
    loaded, smiles = load_model(tmp_path / "model", "cpu"), data.molecules.smiles
    assert ("without bond types" in (tmp_path / "model" / "README.md").read_text()) == (active == 1)
    prediction = loaded.predict(smiles).mean
    torch.testing.assert_close(prediction, fitted.model.predict(smiles).mean)
    assert prediction.isfinite().all()
    complete = loaded.ensemble.prepare(smiles)
    shares = attribute(loaded.ensemble.networks[0], complete[0], 0)
    assert shares.nodes.isfinite().all()
