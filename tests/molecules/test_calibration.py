"""Molecules that calibrate intervals have not chosen an epoch or settings of the members that they score."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn.molecules.calibration import cross_mean, make_folds
from dgn.molecules.conformal import conformal_scores
from dgn.molecules.fit import FitOptions, fit_table
from dgn.molecules.logarithm import to_log
from dgn.molecules.rows import TableData, read_table, take
from dgn.molecules.split import Split, split_molecules
from dgn.molecules.table import open_table


@pytest.fixture
def read(tmp_path: Path, numbers: list[tuple[str, float]]) -> tuple[TableData, Split]:
    path = tmp_path / "table.csv"
    path.write_text("smiles,y\n" + "".join(f"{smiles},{y}\n" for smiles, y in numbers))
    data = read_table(open_table(path))
    return data, split_molecules(data.molecules, data.task, "random")


def test_two_folds_share_the_validation_molecules() -> None:
    split = torch.tensor([0] * 6 + [1] * 11 + [2] * 3, dtype=torch.uint8)
    keys = [str(row // 2) for row in range(20)]  # pairs of duplicates
    first, second = make_folds(keys, split, (3, 4, 5))
    assert (first.seeds, second.seeds) == ((3, 5), (4,))
    assert torch.equal(first.chooses ^ second.chooses, split == 1)
    assert int(first.chooses.sum()) == pytest.approx(5.5, abs=1)
    assert torch.equal(first.chooses[6:16:2], first.chooses[7:17:2])
    assert (first.assign(split) == 1).equal(first.chooses)
    assert (first.assign(split) == 0).equal(split == 0)


@pytest.mark.parametrize(("seeds", "search"), [((3,), False), ((3, 4), True)])
def test_a_single_member_or_a_search_leaves_half_of_the_validation_molecules(
    seeds: tuple[int, ...], search: bool
) -> None:
    split = torch.ones(10, dtype=torch.uint8)
    (fold,) = make_folds([str(row) for row in range(10)], split, seeds, search)
    assert fold.seeds == seeds
    assert int(fold.chooses.sum()) == 5


def test_intervals_are_calibrated_by_members_that_a_molecule_did_not_choose(
    read: tuple[TableData, Split], tmp_path: Path
) -> None:
    data, split = read
    options = FitOptions(ensemble_size=3, epochs=2, device="cpu", descriptor_models=False)
    model = fit_table(data, split, options, tmp_path / "training").model
    assert [member["seed"] for member in model.facts["members"]] == [0, 2, 1]
    folds = make_folds(data.molecules.keys, split.assignment, (0, 1, 2))
    val = take(data.molecules, (split.assignment == 1).nonzero()[:, 0])
    chose = torch.stack([fold.chooses[split.assignment == 1] for fold in folds for _ in fold.seeds])
    outputs, prediction = model.ensemble.outputs(val.graphs), model.predict(val.graphs)
    expected = conformal_scores(
        to_log(data.targets, val.values), cross_mean(model.learned(outputs), chose), prediction.difficulty
    )
    torch.testing.assert_close(model.scores, expected)
    mean_of_all = conformal_scores(val.values, model.learned(outputs).mean(dim=0), prediction.difficulty)
    assert not torch.allclose(model.scores, mean_of_all)


def test_a_single_member_is_calibrated_on_the_other_half(read: tuple[TableData, Split], tmp_path: Path) -> None:
    model = fit_table(*read, FitOptions(ensemble_size=1, epochs=1, device="cpu"), tmp_path / "training").model
    assert int((~model.scores.isnan()).sum()) == 3  # of eight, with duplicates


def test_members_that_other_molecules_chose_are_not_resumed(read: tuple[TableData, Split], tmp_path: Path) -> None:
    data, split = read
    options = FitOptions(ensemble_size=2, epochs=1, device="cpu")
    fit_table(data, split, options, tmp_path / "training")
    again: list[str] = []
    fit_table(data, split, options, tmp_path / "training", on_resume=again.append)
    assert len(again) == 2
    with pytest.raises(
        ValueError, match=r"differs in data\.dataset"
    ):  # seed 1 was trained, but chosen by the other half
        fit_table(data, split, replace(options, seed=1), tmp_path / "training")
