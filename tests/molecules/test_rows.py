"""No row is fatal, and every row left out is reported."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rdkit import Chem

from dgn.data.splits import group
from dgn.molecules import rows
from dgn.molecules.logarithm import learn_logarithm
from dgn.molecules.rows import Problem, read_molecules, read_table, take
from dgn.molecules.table import open_table

PLAIN = [("C" * n, n) for n in range(2, 14)]  # lines 2 to 13


def test_every_unusual_row_is_reported(make_table: Callable[..., Path]) -> None:
    odd: list[tuple[Any, ...]] = [
        ("C(", 1), ("", 2), ("CO", ""), ("CCO", "high"),  # lines 14 to 17
        ("OCC", 3), ("CCO", 4), ("CCN", 5), ("NCC", 5),  # 18 to 21
        ("[Na+].[Cl-]", 6), ("[Na]", 7), ("CCF", 8, 9),  # 22 to 24
    ]  # fmt: skip
    data = read_table(open_table(make_table([*PLAIN, *odd])))
    reported = {problem.what: (problem.action, problem.lines) for problem in data.problems}
    assert reported == {
        "not as many values as columns, a quote that is not closed, or a value too long": ("left out", (24,)),
        "values that are not numbers, or of neither class": ("treated as missing", (17,)),
        "RDKit cannot read the SMILES": ("left out", (14, 15)),
        "no target value": ("left out", (16, 17)),
        "duplicate molecules with different values": ("kept", (18, 19)),
        "duplicate molecules with the same values": ("kept", (20, 21)),
        "salts and mixtures of several components": ("kept", (22,)),
        "single atoms": ("kept", (23,)),
    }
    assert data.rows == 23
    assert len(data.molecules.smiles) == len(data.molecules.graphs) == 18
    left_out = {line for action, lines in reported.values() if action == "left out" for line in lines}
    assert set(data.molecules.lines) | left_out == set(range(2, 25))


def test_gaps_in_several_labels_are_kept(make_table: Callable[..., Path]) -> None:
    rows = [(smiles, n % 2, "" if n < 5 else n % 3 // 2) for smiles, n in PLAIN]
    data = read_table(open_table(make_table(rows, ("smiles", "a", "b"))))
    assert data.task == "multi-label"
    assert data.molecules.values.isnan().sum() == 3
    assert data.problems == (Problem("some target values missing", "kept", (2, 3, 4)),)


def test_detected_columns_that_are_constant_are_left_out_with_a_note(make_table: Callable[..., Path]) -> None:
    rows = [(smiles, 0, n % 2, n % 3 // 2) for smiles, n in PLAIN]
    table = open_table(make_table(rows, ("smiles", "none", "a", "b")))
    data = read_table(table)
    assert [target.name for target in data.targets] == ["a", "b"]
    assert data.notes == ("constant columns, left out: none",)
    assert data.molecules.values[:4].tolist() == [[0, 1], [1, 0], [0, 0], [1, 1]]
    with pytest.raises(ValueError, match="target 'none': expected at least two distinct values, got 0"):
        read_table(table, targets=["none", "a"])


def test_a_column_with_late_values_is_detected(make_table: Callable[..., Path]) -> None:
    rows = [("CCO", n % 2 if n < 210 else "", n % 3 // 2 if n >= 205 else "", "") for n in range(230)]
    data = read_table(open_table(make_table(rows, ("smiles", "a", "b", "empty"))))
    assert [target.name for target in data.targets] == ["a", "b"]
    assert len(data.molecules.smiles) == 230
    assert data.notes == ("columns that are not predicted: empty",)


def test_a_value_of_neither_class_is_treated_as_missing(make_table: Callable[..., Path]) -> None:
    many = [("C" * n, ["active", "inactive"][n % 2]) for n in range(2, 24)]
    data = read_table(open_table(make_table([*many, ("CCO", "inconclusive")])))
    assert data.task == "binary"
    assert [str(problem) for problem in data.problems][:1] == [
        "1 row: values that are not numbers, or of neither class; treated as missing (line 24)"
    ]


@pytest.mark.parametrize(
    ("header", "label"), [("smiles,Löslichkeit", "hoch"), ("smiles,y,Prüfer", "hoch"), ("smiles,y", "löslich")]
)
def test_names_in_another_encoding_are_refused_before_training(tmp_path: Path, header: str, label: str) -> None:
    path, more = tmp_path / "t.csv", "," * (header.count(",") - 1)
    rows = [f"{'C' * n},{label if n % 2 else 'x'}{more}" for n in range(1, 21)]
    path.write_bytes("\n".join([header, *rows, ""]).encode("cp1252"))
    with pytest.raises(ValueError, match=r"expected text in UTF-8, got '.*\ufffd.*'; save it as CSV UTF-8"):
        read_table(open_table(path))
    path.write_text("\n".join([header, *rows, ""]), encoding="utf-8")
    assert len(read_table(open_table(path)).molecules.smiles) == 20


def test_too_few_molecules_are_refused(make_table: Callable[..., Path]) -> None:
    with pytest.raises(ValueError, match="expected at least 10 molecules with targets, got 5 in 6 rows"):
        read_table(open_table(make_table([*PLAIN[:5], ("C(", 1)])))


def test_columns_that_are_not_there_are_refused(make_table: Callable[..., Path]) -> None:
    table = open_table(make_table(PLAIN))
    with pytest.raises(ValueError, match="did you mean 'smiles'"):
        read_table(table, smiles="smile")
    with pytest.raises(ValueError, match=r"expected distinct ones .* got 'y' twice; choose another"):
        read_table(table, targets=["y"], split="y")
    with pytest.raises(ValueError, match=r"smiles: expected SMILES in column 'y', got .* choose another with --smiles"):
        read_table(table, smiles="y")


def test_unreadable_records_and_impossible_valences_of_an_sdf_file(tmp_path: Path) -> None:
    records = []
    for index, smiles in enumerate([*("C" * n for n in range(1, 13)), "CF(F)F"]):
        molecule = Chem.MolFromSmiles(smiles, sanitize=False)
        molecule.UpdatePropertyCache(strict=False)
        records.append(f"{Chem.MolToMolBlock(molecule)}>  <y>\n{index}\n\n$$$$\n")
    (tmp_path / "t.sdf").write_text("".join([*records, "broken\n$$$$\n"]))
    table = open_table(tmp_path / "t.sdf")
    unreadable = "1 row: RDKit cannot read the record; left out (line 14)"
    for valence, count in (("refuse", 12), ("keep", 13)):
        data = read_table(table, valence=valence)  # type: ignore[arg-type]
        action = "left out" if valence == "refuse" else "kept"
        remark = f"1 row: impossible valence of fluorine; {action} (line 13)"
        assert [str(problem) for problem in data.problems][:2] == [unreadable, remark]
        assert len(data.molecules.smiles) == count


def test_with_a_logarithm_remarks_are_on_the_rows_that_remain(make_table: Callable[..., Path]) -> None:
    rows = [*((smiles, y, y) for smiles, y in PLAIN), ("CC", 0, -1), ("CF(F)F", 0, 2), ("CO", 0, 0)]
    data = read_table(open_table(make_table(rows, ("smiles", "y", "z"))), targets=["y", "z"], valence="keep")
    assert "1 row: impossible valence of fluorine; kept (line 15)" in map(str, data.problems)
    assert [str(problem) for problem in learn_logarithm(data).problems] == [
        "2 rows: no positive value; left out (lines 14, 16)",
        "1 row: values that are not positive; treated as missing (line 15)",
        "1 row: impossible valence of fluorine; kept (line 15)",
        "1 row: some target values missing; kept (line 15)",
    ]


def test_many_lines_are_cut_short() -> None:
    assert str(Problem("odd", "kept", tuple(range(20)))).endswith("(lines 0, 1, 2, 3, 4, 5, 6, 7 and 12 more)")


def test_the_work_for_a_row_does_not_grow_with_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    work = []

    class Numbers(list[int]):
        def __eq__(self, other: object) -> bool:
            work.append("numbers compared")
            return super().__eq__(other)

    def make_set(numbers: Any) -> set[Any]:
        work.append("set made")
        return set(numbers)

    monkeypatch.setattr(rows, "set", make_set, raising=False)
    monkeypatch.setattr(rows, "group", lambda keys: {key: Numbers(rows_of) for key, rows_of in group(keys).items()})
    smiles = ["C" * n for n in range(1, 31)] * 2
    values = [1.0 if n % 3 == 0 else float(n) for n in range(60)]
    values[40:50] = [math.nan] * 10
    _, problems = read_molecules(smiles, torch.tensor(values)[:, None], range(60))
    assert {problem.what: len(problem.lines) for problem in problems} == {
        "no target value": 10,
        "duplicate molecules with different values": 26,
        "duplicate molecules with the same values": 14,
        "single atoms": 2,
    }
    assert len(work) <= 2


def test_taking_keeps_rows_together(make_table: Callable[..., Path]) -> None:
    molecules = read_table(open_table(make_table(PLAIN))).molecules
    some = take(molecules, torch.tensor([3, 1]))
    assert some.smiles == ("CCCCC", "CCC")
    assert some.values[:, 0].tolist() == [5, 3]
    assert some.graphs.node_pointer.diff().tolist() == [5, 3]
