"""Splits: shares, molecules that stay together, and classes in every part."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn.molecules.columns import Target, Task
from dgn.molecules.fit import FitOptions, fit_table
from dgn.molecules.rows import Molecules, TableData, read_molecules
from dgn.molecules.split import Split, at_random, drop_unlearnable, lack, scaffold_split, split_molecules

RINGS = [f"{'C' * n}c1ccccc1" for n in range(1, 9)] + [f"{'C' * n}C1CCCC1" for n in range(1, 3)]


def molecules(smiles: list[str], labels: bool = False) -> Molecules:
    values = torch.arange(len(smiles), dtype=torch.float64)[:, None]
    return read_molecules(smiles, values % 2 if labels else values, range(len(smiles)))[0]


def test_scaffolds_go_largest_first_and_stay_together() -> None:
    assert scaffold_split(["b", "a", "a", "c", "a", "a", "a", "a", "a", "a"]).tolist() == [1, 0, 0, 2, 0, 0, 0, 0, 0, 0]
    found = split_molecules(molecules([*RINGS, "C1CCC1C", "CCCC"]), "regression", "scaffold")
    assert found.part.tolist() == [0] * 8 + [1] * 2 + [0, 2]
    assert found.how == "scaffold"


def test_without_room_for_scaffolds_it_is_random_and_said() -> None:
    ring = molecules([f"{'C' * n}c1ccccc1" for n in range(1, 21)])
    with pytest.raises(ValueError, match="got no molecule for"):
        split_molecules(ring, "regression", "scaffold")
    found = split_molecules(ring, "regression")
    assert found.how == "random"
    assert "split at random instead" in found.notes[0]
    assert torch.bincount(found.part.long()).tolist() == [16, 2, 2]


def test_random_keeps_spellings_together_and_spreads_classes() -> None:
    twice = molecules([f"{'C' * n}O" for n in range(2, 22)] + [f"O{'C' * n}" for n in range(2, 22)])
    part = at_random(twice, "regression", seed=3)
    assert torch.equal(part[:20], part[20:])
    assert not torch.equal(part, at_random(twice, "regression", seed=4))
    rare = replace(twice, values=(torch.arange(40) % 4 == 0).double()[:, None], keys=tuple(map(str, range(40))))
    assert lack(at_random(rare, "binary", seed=0), rare.values, "binary") == ""


def test_scaffolds_keep_spellings_together() -> None:
    refused = ["CN12(CCCCC1)CCCC2", "C1CCN2(CC1)(C)CCCC2", "C1CCCN12(C)CCCCC2", "C1CN2(C)(CCCCC2)CC1"]  # valences
    found = split_molecules(molecules([*(f"{'C' * n}c1ccccc1" for n in range(1, 17)), *refused]), "regression")
    assert len(set(found.part[-4:].tolist())) == 1


def test_numbers_of_atoms_make_no_other_molecule() -> None:
    pairs = [(f"c1ccccc1{'C' * n}", f"[cH:1]1[cH:2][cH:3][cH:4][cH:5][c:6]1{'C' * n}") for n in range(1, 16)]
    plain, numbered = zip(*pairs, strict=True)
    found = split_molecules(molecules([*plain, *numbered]), "regression", "random")
    assert torch.equal(found.part[:15], found.part[15:])


def test_a_given_split() -> None:
    given = molecules([f"{'C' * n}O" for n in range(2, 22)])
    words = ["Train"] * 16 + ["valid"] * 2 + ["test"] * 2
    assert (
        split_molecules(replace(given, part=tuple(words)), "regression").part.tolist() == [0] * 16 + [1] * 2 + [2] * 2
    )
    without = split_molecules(replace(given, part=("train",) * 18 + ("test",) * 2), "regression")
    assert torch.bincount(without.part.long()).tolist() == [16, 2, 2]
    assert "no row is called val" in without.notes[0]
    twice = replace(given, part=("train",) * 18 + ("test",) * 2, keys=tuple(str(n // 2) for n in range(20)))
    ninth = split_molecules(twice, "regression")
    assert torch.equal(ninth.part[::2], ninth.part[1::2])
    assert len(ninth.notes) == 1
    with pytest.raises(ValueError, match="got no molecule for train"):
        split_molecules(replace(given, part=("test",) * 20), "regression")
    leaking = replace(given, part=tuple(words), keys=("same",) * 20)
    assert "1 molecules stand in more than one part" in split_molecules(leaking, "regression").notes[0]
    with pytest.raises(ValueError, match="got 'tset' in line 19"):
        split_molecules(replace(given, part=(*words[:-1], "tset")), "regression")


def test_one_class_in_a_part_is_refused() -> None:
    given = replace(
        molecules([f"{'C' * n}O" for n in range(2, 22)], labels=True), part=("train",) * 18 + ("val", "test")
    )
    with pytest.raises(ValueError, match="one class only for val"):
        split_molecules(given, "binary")


@pytest.mark.parametrize(("task", "left"), [("regression", (19,)), ("multi-label", (10, 19))])
def test_targets_without_training_values_are_left_out_and_said(
    task: Task, left: tuple[int, ...], tmp_path: Path
) -> None:
    values = torch.full((20, 2), torch.nan, dtype=torch.float64)
    values[:19, 0] = torch.arange(19) % 2
    values[15:, 1] = 1 + torch.arange(5) % 2 if task == "regression" else torch.arange(5) % 2
    if task != "regression":
        values[10] = torch.tensor([torch.nan, 1])  # one class is not enough
    found, problems = read_molecules([f"{'C' * n}O" for n in range(2, 22)], values, range(20))
    data = TableData("smiles", task, (Target("A"), Target("B")), 20, found, tuple(problems))
    split = Split(torch.tensor([0] * 15 + [1] * 2 + [2] * 3, dtype=torch.uint8), "column")
    with pytest.raises(ValueError, match=r"target 'B': expected .* among the molecules to train on"):
        fit_table(data, split, FitOptions(1, 1), tmp_path / "training")
    kept, parts = drop_unlearnable(data, split)
    assert [target.name for target in kept.targets] == ["A"]
    assert kept.task == ("regression" if task == "regression" else "binary")
    assert kept.molecules.values.shape == (20 - len(left), 1)
    assert len(parts.part) == len(kept.molecules.graphs) == 20 - len(left)
    assert kept.notes[-1].endswith("in the training part, left out: B")
    assert [(problem.done, problem.lines) for problem in kept.problems] == [("left out", left)]
    assert drop_unlearnable(kept, parts) == (kept, parts)
