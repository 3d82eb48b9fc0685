"""Excel workbooks: rows as Excel numbers them, stored values of formulas, numbers and text kept apart."""

import re
import sys
import zipfile
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest

from dgn.molecules.fit import Fitted
from dgn.molecules.model_io import load_model
from dgn.molecules.predict import check_output, predict_table
from dgn.molecules.rows import read_table
from dgn.molecules.table import open_table
from dgn.molecules.workbook import MOST_ROWS, NO_VALUE, open_workbook
from tests.molecules.conftest import SMILES

openpyxl = pytest.importorskip("openpyxl", reason="Excel files are read by openpyxl, the extra tables")


def make_workbook(path: Path, rows: Sequence[Sequence[Any]], **others: Sequence[Sequence[Any]]) -> Path:
    workbook = openpyxl.Workbook()
    workbook.active.title = "Compounds"
    for row in rows:
        workbook.active.append(list(row))
    for name, more in others.items():
        sheet = workbook.create_sheet(name)
        for row in more:
            sheet.append(list(row))
    workbook.save(path)
    return path


def test_rows_are_numbered_as_in_excel(tmp_path: Path) -> None:
    rows = [
        [], ["smiles", "y", None, "day", None],
        ["CCO", 0.1 + 0.2, "x", datetime(2026, 1, 2)], [None, None], ["C", 3, None, None, "beyond the last name"],
        [None, None, None, None, "beyond"], ["007", True, "#N/A", datetime(2026, 1, 2, 3, 4)],
    ]  # fmt: skip
    table = open_table(make_workbook(tmp_path / "t.xlsx", rows))
    assert table.columns == ("smiles", "y", "C", "day")
    assert [(row.line, row.values) for row in table.rows()] == [
        (3, ["CCO", "0.3", "x", "2026-01-02"]),
        (5, ["C", "3", "", ""]),
        (7, ["007", "True", "#N/A", "2026-01-02 03:04:00"]),
    ]
    assert not any(row.problem for row in table.rows())


def test_the_first_sheet_is_read_and_the_others_named(tmp_path: Path) -> None:
    rows = [["smiles", "y"], *((one, index) for index, one in enumerate(SMILES))]
    table = open_table(make_workbook(tmp_path / "t.xlsx", rows, Notes=[["see Compounds"]]))
    assert len(list(table.rows())) == len(SMILES)
    assert read_table(table).notes == ("sheet Compounds is read, not Notes",)


def set_value(path: Path, cell: str, value: str) -> None:
    """Store a value beside the formula of a cell, as Excel does."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    name = "xl/worksheets/sheet1.xml"
    before, at, after = files[name].decode().partition(f'<c r="{cell}">')
    assert at
    files[name] = (before + at + re.sub("<v */>|<v></v>", f"<v>{value}</v>", after, count=1)).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)


def test_formulas_have_the_values_that_excel_stored(tmp_path: Path) -> None:
    path = make_workbook(tmp_path / "t.xlsx", [["smiles", "y"], ["C", 1], ["CC", "=2*B2"], ["CCC", "=2*B3"]])
    assert [row.problem for row in open_table(path).rows()] == ["", NO_VALUE, NO_VALUE]
    set_value(path, "B3", "2")
    rows = list(open_table(path).rows())
    assert [(row.values, row.problem) for row in rows] == [
        (["C", "1"], ""), (["CC", "2"], ""), (["CCC", ""], NO_VALUE),
    ]  # fmt: skip


def test_rows_of_formulas_without_a_value_are_left_out_and_named(tmp_path: Path) -> None:
    rows = [["smiles", "y"], *([one, index] for index, one in enumerate(SMILES)), ["CC", "=1+1"]]
    data = read_table(open_table(make_workbook(tmp_path / "t.xlsx", rows)))
    assert str(data.problems[0]) == f"1 row: {NO_VALUE}; left out (line {len(SMILES) + 2})"


def test_what_is_not_a_workbook_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    path.write_text("smiles,y\nC,1\n")
    with pytest.raises(ValueError, match="expected an Excel workbook without a password, got File is not a zip"):
        open_table(path)
    good = make_workbook(path, [["smiles"], *[[one] for one in SMILES]]).read_bytes()
    path.write_bytes(good[: len(good) // 2])
    with pytest.raises(ValueError, match="expected an Excel workbook"):
        open_table(path)
    damaged = bytearray(good)
    damaged[good.index(b"xl/worksheets/sheet1.xml") + 60] ^= 255
    path.write_bytes(bytes(damaged))
    with pytest.raises(ValueError, match="expected an Excel workbook"):
        list(open_table(path).rows())
    with pytest.raises(ValueError, match="expected column names in the first row of sheet Compounds, got an empty"):
        open_table(make_workbook(path, []))
    with pytest.raises(ValueError, match="got only a header"):
        open_table(make_workbook(path, [["smiles", "y"]]))


def test_predictions_are_numbers_and_other_cells_keep_their_text(fitted: tuple[Fitted, Path], tmp_path: Path) -> None:
    rows = [["smiles", "id", "mass", "note"], ["CCCO", "007", 60.1, "1+1=2"], ["C((", "1E5", 2, date(2026, 1, 2)]]
    path, out = make_workbook(tmp_path / "t.xlsx", rows), tmp_path / "out.xlsx"
    model = load_model(fitted[1], "cpu")
    summary = predict_table(model, open_table(path), out)
    assert (summary.rows, summary.lines) == (2, (3,))
    header, good, bad = openpyxl.load_workbook(out).active.iter_rows(values_only=True)
    assert header[:5] == ("smiles", "id", "mass", "note", "y_prediction")
    assert good[:4] == ("CCCO", "007", 60.1, "1+1=2")
    assert good[4] == pytest.approx(float(model.predict(["CCCO"]).mean), rel=1e-5)
    assert bad[:5] == ("C((", "1E5", 2, "2026-01-02", None)
    assert bad[len(header) - 1] == "RDKit cannot read it"


def test_text_is_never_a_formula(tmp_path: Path) -> None:
    path = tmp_path / "t.xlsx"
    with open_workbook(path) as write:
        write([["=1+1", "bell \x07", "\udcff", "nan", "-inf", "12345678901234567", "1.50", "-2.5e-05"]])
    (cells,) = openpyxl.load_workbook(path).active.iter_rows()
    assert [cell.data_type for cell in cells] == ["s"] * 7 + ["n"]
    assert [cell.value for cell in cells][1:3] == ["bell \ufffd", "?"]
    with open_workbook(path) as write, pytest.raises(ValueError, match="at most 1,048,575 rows"):
        write([[]] * (MOST_ROWS + 1))


def test_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_workbook(tmp_path / "t.xlsx", [["smiles"], ["C"]])
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    for refused in (lambda: open_table(path), lambda: check_output(tmp_path / "out.xlsx", tmp_path / "t.csv")):
        with pytest.raises(ImportError, match=r"\.xlsx: expected the package openpyxl.*the extra 'tables'"):
            refused()
