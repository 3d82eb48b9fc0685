"""Tables in Excel workbooks (.xlsx): read row by row, written row by row. Needs openpyxl, the extra ``tables``."""

import re
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from dgn.graph.checks import check_package

BLOCK = 1024  # rows read at once
MOST_ROWS = 1_048_576  # of a sheet, by Excel
NO_VALUE = "a formula without a value: open the file in Excel and save it"
DAMAGED = (zipfile.BadZipFile, zlib.error, SyntaxError, LookupError, ValueError, TypeError, AttributeError, EOFError)
FORMULA = re.compile(rb"<(\w+:)?f[ />]")  # in the XML of a sheet


class SheetRow(NamedTuple):
    """A row of a sheet: its number, which Excel shows, its cells as text, and its problem, if any."""

    line: int
    values: list[str]
    problem: str = ""


def sheet_names(path: Path) -> list[str]:
    """The names of the visible sheets; the first is the one that is read."""
    with closing(_open(path)) as workbook:
        names = [sheet.title for sheet in workbook.worksheets if sheet.sheet_state == "visible"]
    if not names:
        raise ValueError(f"{path}: expected a sheet with a table, got none that is visible; add one")
    return names


def sheet_columns(path: Path, sheet: str) -> tuple[str, ...]:
    """The names in the first row that is not empty; a column without a name has its letter, up to the last name."""
    check_package(".xlsx", "openpyxl")
    from openpyxl.utils import get_column_letter

    header = next(_filled_rows(path, sheet), SheetRow(1, []))
    names = [name.strip() for name in header.values]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise ValueError(f"{path}: expected column names in the first row of sheet {sheet}, got an empty sheet")
    return tuple(name or get_column_letter(index) for index, name in enumerate(names, start=1))


def sheet_rows(path: Path, sheet: str, width: int) -> Iterator[SheetRow]:
    """The rows below the header, of ``width`` values each; empty rows and cells beyond are not read."""
    for row in islice(_filled_rows(path, sheet), 1, None):
        values = row.values[:width]
        if any(values) or row.problem:
            yield row._replace(values=values + [""] * (width - len(values)))


def _filled_rows(path: Path, sheet: str) -> Iterator[SheetRow]:
    """The rows with any content. Cells are the values that Excel stored with their formulas."""
    lines = _sheet_values(path, sheet)
    if not _has_formulas(path):
        for line, cells in enumerate(lines, start=1):
            if any(cell is not None for cell in cells):
                yield SheetRow(line, [to_text(cell) for cell in cells])
        return
    formulas = _sheet_values(path, sheet, formulas=True)
    for line, (cells, sources) in enumerate(zip(lines, formulas, strict=True), start=1):
        unknown = any(cell is None and source is not None for cell, source in zip(cells, sources, strict=True))
        if unknown or any(cell is not None for cell in cells):
            yield SheetRow(line, [to_text(cell) for cell in cells], NO_VALUE if unknown else "")


def _sheet_values(path: Path, sheet: str, formulas: bool = False) -> Iterator[tuple[Any, ...]]:
    """The cells of each row, or their formulas where they have one."""
    with closing(_open(path, formulas)) as workbook:
        worksheet = workbook[sheet]
        worksheet.reset_dimensions()  # some programs state wrong ones
        rows = worksheet.iter_rows(values_only=True)
        while block := _checked(path, lambda: list(islice(rows, BLOCK))):
            yield from block


def _open(path: Path, formulas: bool = False) -> Any:
    check_package(".xlsx", "openpyxl")
    from openpyxl import load_workbook

    return _checked(path, lambda: load_workbook(path, read_only=True, data_only=not formulas, keep_links=False))


def _checked(path: Path, read: Callable[[], Any]) -> Any:
    """What is read; a damaged file is refused by name, and warnings on styles and extensions are dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return read()
        except DAMAGED as problem:
            raise ValueError(
                f"{path}: expected an Excel workbook without a password, got {problem}; save it again as .xlsx, or .csv"
            ) from problem


def _has_formulas(path: Path) -> bool:
    """Whether a sheet has formulas, whose stored values may be missing."""
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            if name.startswith("xl/worksheets/") and name.endswith(".xml"):
                with archive.open(name) as file:
                    end = b""
                    while block := file.read(1 << 20):
                        if FORMULA.search(end + block):
                            return True
                        end = block[-32:]
    return False


def to_text(value: Any) -> str:
    """A cell as text: numbers to the 15 digits of Excel, dates without a time of midnight.

    >>> [to_text(value) for value in (None, 0.1 + 0.2, 7, datetime(2026, 1, 2), "CCO")]
    ['', '0.3', '7', '2026-01-02', 'CCO']
    """
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.15g}"
    if isinstance(value, datetime):
        return str(value).removesuffix(" 00:00:00")
    return str(value)


@contextmanager
def open_workbook(path: Path) -> Iterator[Callable[[Sequence[Sequence[str]]], None]]:
    """A function that appends rows to a new workbook, which is complete when the block ends."""
    check_package(".xlsx", "openpyxl")
    from openpyxl import Workbook

    workbook = Workbook(write_only=True)
    sheet, total = workbook.create_sheet("predictions"), 0

    def write(rows: Sequence[Sequence[str]]) -> None:
        nonlocal total
        total += len(rows)
        if total > MOST_ROWS:
            raise ValueError(f"out: expected at most {MOST_ROWS - 1:,} rows for .xlsx, got more; name it .csv")
        for row in rows:
            sheet.append([_to_cell(sheet, text) for text in row])

    try:
        yield write
        workbook.save(path)
    finally:
        workbook.close()


def _to_cell(sheet: Any, text: str) -> Any:
    """A number where the text is the usual spelling of one; else text, never a formula."""
    from openpyxl.cell import WriteOnlyCell
    from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE

    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if f"{number:.15g}" == text and number == number and abs(number) != float("inf"):
        return number
    cell = WriteOnlyCell(sheet, ILLEGAL_CHARACTERS_RE.sub("\ufffd", text.encode("utf-8", "replace").decode()))
    cell.data_type = "s"
    return cell
