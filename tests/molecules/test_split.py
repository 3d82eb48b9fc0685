"""Splits: fractions, duplicates that stay together, and both classes in every split."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn.molecules.columns import Target, Task
from dgn.molecules.fit import FitOptions, fit_table
from dgn.molecules.rows import Molecules, TableData, read_molecules
from dgn.molecules.split import (
    Split,
    drop_unlearnable,
    missing_classes,
    random_split,
    scaffold_split,
    split_molecules,
    unequal_targets,
)

RINGS = [f"{'C' * n}c1ccccc1" for n in range(1, 9)] + [f"{'C' * n}C1CCCC1" for n in range(1, 3)]


def molecules(smiles: list[str], labels: bool = False) -> Molecules:
    values = torch.arange(len(smiles), dtype=torch.float64)[:, None]
    return read_molecules(smiles, values % 2 if labels else values, range(len(smiles)), valence="keep")[0]


def test_scaffolds_go_largest_first_and_stay_together() -> None:
    assert scaffold_split(["b", "a", "a", "c", "a", "a", "a", "a", "a", "a"]).tolist() == [1, 0, 0, 2, 0, 0, 0, 0, 0, 0]
    split = split_molecules(molecules([*RINGS, "C1CCC1C", "CCCC"]), "regression", "scaffold")
    assert split.assignment.tolist() in ([0] * 8 + [1] * 2 + [0, 2], [0] * 8 + [1] * 2 + [2, 0])  # equal sizes
    assert split.method == "scaffold"


@pytest.mark.parametrize("method", ["scaffold", "random"])
def test_a_split_follows_the_seed_and_not_the_order_of_rows(method: str) -> None:
    """A table that is sorted by its target must not get a test split from one end of its range."""
    smiles = [f"{'C' * tail}C1{'C' * ring}1" for ring in range(2, 12) for tail in range(1, 4)] + ["CCCO", "OCCC"]
    order = torch.randperm(len(smiles), generator=torch.Generator().manual_seed(5)).tolist()
    shuffled = molecules([smiles[row] for row in order])
    for task in ("regression", "binary"):
        rows = replace(molecules(smiles), values=(torch.arange(len(smiles)) % 2)[:, None].double())
        other = replace(shuffled, values=rows.values[order])
        one, again, another = (
            split_molecules(table, task, method, seed).assignment for table, seed in ((rows, 3), (other, 3), (rows, 4))
        )
        assert torch.equal(one[order], again)
        assert not torch.equal(one, another)


def test_splits_that_differ_in_their_targets_are_noted() -> None:
    table = molecules([f"{'C' * n}O" for n in range(1, 121)])
    ends = torch.arange(120) >= 96
    by_range = replace(
        table, split=tuple("test" if end else "val" if n % 8 == 0 else "train" for n, end in enumerate(ends))
    )
    assert unequal_targets(by_range.values, split_molecules(by_range, "regression").assignment, (Target("logS"),)) == [
        "logS differs between the splits: train 48 ± 28, test 108 ± 6.9: test scores are those of extrapolation"
    ]
    classes = replace(by_range, values=ends.double()[:, None])
    target = Target("hit", ("no", "yes"))
    assert unequal_targets(classes.values, torch.tensor([2 if end else 0 for end in ends]), (target,)) == [
        "hit = yes differs between the splits: train 0 %, test 100 %: test scores are those of extrapolation"
    ]
    even = random_split(table, "regression", seed=0)
    assert unequal_targets(table.values, even, (Target("logS"),)) == []


def test_scaffolds_that_leave_a_split_empty_fall_back_to_random_with_a_note() -> None:
    ring = molecules([f"{'C' * n}c1ccccc1" for n in range(1, 21)])
    with pytest.raises(ValueError, match="got no molecule for"):
        split_molecules(ring, "regression", "scaffold")
    split = split_molecules(ring, "regression")
    assert split.method == "random"
    assert "split at random instead" in split.notes[0]
    assert torch.bincount(split.assignment.long()).tolist() == [16, 2, 2]


def test_a_random_split_keeps_duplicates_together_and_stratifies_classes() -> None:
    twice = molecules([f"{'C' * n}O" for n in range(2, 22)] + [f"O{'C' * n}" for n in range(2, 22)])
    split = random_split(twice, "regression", seed=3)
    assert torch.equal(split[:20], split[20:])
    assert not torch.equal(split, random_split(twice, "regression", seed=4))
    rare = replace(twice, values=(torch.arange(40) % 4 == 0).double()[:, None], keys=tuple(map(str, range(40))))
    assert missing_classes(random_split(rare, "binary", seed=0), rare.values, "binary") == ""


def test_a_scaffold_split_keeps_duplicates_together() -> None:
    refused = ["CN12(CCCCC1)CCCC2", "C1CCN2(CC1)(C)CCCC2", "C1CCCN12(C)CCCCC2", "C1CN2(C)(CCCCC2)CC1"]  # valences
    others = [f"{'C' * n}c1ccccc1" for n in range(1, 33)]
    split = split_molecules(molecules([*others, *refused, *RINGS[-2:], "C1CCC1", "C1CC1"]), "regression")
    assert split.method == "scaffold"
    assert len(set(split.assignment[32:36].tolist())) == 1


def test_atom_map_numbers_do_not_separate_duplicates() -> None:
    pairs = [(f"c1ccccc1{'C' * n}", f"[cH:1]1[cH:2][cH:3][cH:4][cH:5][c:6]1{'C' * n}") for n in range(1, 16)]
    plain, numbered = zip(*pairs, strict=True)
    split = split_molecules(molecules([*plain, *numbered]), "regression", "random")
    assert torch.equal(split.assignment[:15], split.assignment[15:])


def test_a_split_column() -> None:
    table = molecules([f"{'C' * n}O" for n in range(2, 22)])
    labels_of_rows = ["Train"] * 16 + ["valid"] * 2 + ["test"] * 2
    by_column = split_molecules(replace(table, split=tuple(labels_of_rows)), "regression")
    assert by_column.assignment.tolist() == [0] * 16 + [1] * 2 + [2] * 2
    without = split_molecules(replace(table, split=("train",) * 18 + ("test",) * 2), "regression")
    assert torch.bincount(without.assignment.long()).tolist() == [16, 2, 2]
    assert "the column has no val" in without.notes[0]
    twice = replace(table, split=("train",) * 18 + ("test",) * 2, keys=tuple(str(n // 2) for n in range(20)))
    ninth = split_molecules(twice, "regression")
    assert torch.equal(ninth.assignment[::2], ninth.assignment[1::2])
    assert len(ninth.notes) == 1
    with pytest.raises(ValueError, match="got no molecule for train"):
        split_molecules(replace(table, split=("test",) * 20), "regression")
    leaking = replace(table, split=tuple(labels_of_rows), keys=("same",) * 20)
    assert "1 molecules are in more than one split" in split_molecules(leaking, "regression").notes[0]
    with pytest.raises(ValueError, match="got 'tset' in line 19"):
        split_molecules(replace(table, split=(*labels_of_rows[:-1], "tset")), "regression")


def test_one_class_in_a_split_is_refused() -> None:
    table = replace(
        molecules([f"{'C' * n}O" for n in range(2, 22)], labels=True), split=("train",) * 18 + ("val", "test")
    )
    with pytest.raises(ValueError, match="one class only for val"):
        split_molecules(table, "binary")


@pytest.mark.parametrize(("task", "left"), [("regression", (19,)), ("multi-label", (10, 19))])
def test_targets_without_training_values_are_left_out_with_a_note(
    task: Task, left: tuple[int, ...], tmp_path: Path
) -> None:
    values = torch.full((20, 2), torch.nan, dtype=torch.float64)
    values[:19, 0] = torch.arange(19) % 2
    values[15:, 1] = 1 + torch.arange(5) % 2 if task == "regression" else torch.arange(5) % 2
    if task != "regression":
        values[10] = torch.tensor([torch.nan, 1])  # one class is not enough
    alcohols, problems = read_molecules([f"{'C' * n}O" for n in range(2, 22)], values, range(20))
    data = TableData("smiles", task, (Target("A"), Target("B")), 20, alcohols, tuple(problems))
    split = Split(torch.tensor([0] * 15 + [1] * 2 + [2] * 3, dtype=torch.uint8), "column")
    with pytest.raises(ValueError, match=r"target 'B': expected .* in the training split"):
        fit_table(data, split, FitOptions(1, 1), tmp_path / "training")
    learnable, remaining = drop_unlearnable(data, split)
    assert [target.name for target in learnable.targets] == ["A"]
    assert learnable.task == ("regression" if task == "regression" else "binary")
    assert learnable.molecules.values.shape == (20 - len(left), 1)
    assert len(remaining.assignment) == len(learnable.molecules.graphs) == 20 - len(left)
    assert learnable.notes[-1].endswith("in the training split, left out: B")
    assert [(problem.action, problem.lines) for problem in learnable.problems] == [("left out", left)]
    assert drop_unlearnable(learnable, remaining) == (learnable, remaining)
