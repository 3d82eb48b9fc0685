"""The usual settings: by size, task, and whether a class is rare."""

from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from dgn.fitting.defaults import default_experiment, is_rare
from dgn.fitting.fit import FitOptions, fit_table
from dgn.fitting.rows import read_table
from dgn.fitting.split import split_molecules
from dgn.fitting.table import open_table


@pytest.mark.parametrize(("molecules", "decay"), [(500, 1e-5), (5_000, 0.0), (50_000, 0.0)])
def test_rare_classes_of_larger_tables_are_learned_without_decay(molecules: int, decay: float) -> None:
    usual, rare = (default_experiment(molecules, (0,), "table", "multi-label", rare=each) for each in (False, True))
    assert (usual.training.weight_decay, rare.training.weight_decay) == (1e-5, decay)
    assert (usual == rare) == (molecules == 500)


def test_values_that_are_missing_make_no_class_rare() -> None:
    values = torch.full((1_000, 2), torch.nan)
    values[:40, 0], values[:20, 1] = 0, 1
    assert not is_rare(values, "multi-label")
    values[:, 0] = 0
    values[20:, 1] = 0
    values[5:20, 1] = 0
    assert is_rare(values, "multi-label")
    assert not is_rare(values, "regression")


@pytest.mark.parametrize("active", [1, 2])
def test_a_fit_asks_whether_a_class_is_rare_among_its_training_molecules(
    make_table: Callable[..., Path], active: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [("C" * length + "O", int(length <= active), "train") for length in range(1, 151)]
    rows += [("N" + "C" * length, length % 2, part) for length in (1, 2) for part in ("val", "test")]
    data = read_table(open_table(make_table(rows, ("smiles", "y", "split"))), split="split")
    honest = Mock(side_effect=[default_experiment(1, (0,), "", "binary"), KeyboardInterrupt])
    monkeypatch.setattr("dgn.fitting.fit.default_experiment", honest)
    with pytest.raises(KeyboardInterrupt):
        fit_table(data, split_molecules(data.molecules, data.task), FitOptions(device="cpu"), tmp_path / "training")
    assert honest.call_args.args[0] == 150
    assert honest.call_args.args[-1] == (active == 1)
