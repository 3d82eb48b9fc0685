"""Tables of text, a row at a time: CSV (also packed with gzip) and Parquet, never whole in memory."""

import codecs
import csv
import gzip
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

from dgn.data.io.parquet import open_parquet

SUFFIXES = (".csv", ".tsv", ".txt", ".smi", ".csv.gz", ".tsv.gz", ".parquet")
DELIMITERS = "\t;|,"  # commas last: names and numbers have them too
LOOK = 20  # lines that tell the delimiter
Found = TypeVar("Found")


class Row(NamedTuple):
    """A row: the line on which it begins, a value for each column, and what is wrong with it, if anything."""

    line: int
    values: list[str]
    problem: str = ""


@dataclass(frozen=True)
class Table:
    """A file with named columns; :meth:`rows` reads it from the beginning each time.

    Text is UTF-8, or UTF-16 with its mark; bytes that are neither pass through unchanged. Lines are counted as an
    editor does: the header is line 1, and a quoted value may span several. In Parquet, which has no lines, the first
    row is line 1.
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: str = ","

    def rows(self) -> Iterator[Row]:
        if self.path.suffix.lower() == ".parquet":
            return _parquet_rows(self)
        return islice(_csv_rows(self.path, self.delimiter, len(self.columns)), 1, None)

    def place(self, column: str) -> int:
        """Where a column is; an unknown name is refused, and the nearest named."""
        from dgn.graph.checks import check_option

        check_option("column", column, self.columns)
        return self.columns.index(column)


def open_table(path: str | Path) -> Table:
    """Look at the header of a table; refuse an empty file, and names that stand twice."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a table ({', '.join(SUFFIXES)}), found no file; check the path")
    if path.name.lower().endswith(".parquet"):
        table = Table(path, _parquet_columns(path))
    elif path.name.lower().endswith(SUFFIXES):
        table = _open_csv(path)
    else:
        raise ValueError(f"{path}: expected a file called {', '.join(SUFFIXES)}, got {path.suffix!r}; save it as .csv")
    twice = sorted({name for name in table.columns if table.columns.count(name) > 1})
    if twice:
        raise ValueError(f"{path}: expected different names of columns, got {twice[0]!r} more than once; rename one")
    if next(table.rows(), None) is None:
        raise ValueError(f"{path}: expected rows of molecules, got a header alone; is the file complete?")
    return table


def check_text(path: Path, names: Iterable[str]) -> None:
    """Refuse names in another encoding before all work: no card can be written with them, and no picture drawn."""
    for name in names:
        if name.encode("utf-8", "ignore").decode() != name:
            shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            raise ValueError(f"{path}: expected text in UTF-8, got {shown!r}; save it as CSV UTF-8")


def _open_csv(path: Path) -> Table:
    with _text(path) as file:
        lines = _checked(path, lambda: list(islice(file, LOOK)))
    if not lines or not lines[0].strip():
        raise ValueError(f"{path}: expected names of columns in the first line, got an empty one; is the file empty?")
    delimiter = _delimiter(lines)
    first = next(_csv_rows(path, delimiter))
    if first.problem:
        raise ValueError(f"{path}: expected names of columns in the first line, got {first.problem}; correct it")
    return Table(path, tuple(name.strip() for name in first.values), delimiter)


def _delimiter(lines: Sequence[str]) -> str:
    """What parts the names in the header, and as often the values of the lines below it, quoted ones use_wgrad_stream.

    >>> _delimiter(["IC50, nM;SMILES", "1,5;CCO"]), _delimiter(['"y; z",smiles', "1,C"])
    (';', ',')
    """
    plain = [re.sub('"[^"]*"', "", line) for line in lines]
    often = {sign: plain[0].count(sign) for sign in DELIMITERS if sign in plain[0]}
    fit = {sign: (sum(line.count(sign) == count for line in plain), count) for sign, count in often.items()}
    return max(fit, key=lambda sign: fit[sign], default=",")


def _csv_rows(path: Path, delimiter: str, wanted: int | None = None) -> Iterator[Row]:
    """The rows from the header on, each of ``wanted`` values.

    A quote that is not closed makes a value of all rows up to the next quote. Where what was read over several lines
    breaks the rules of CSV, or looks like rows, every line is read by itself, so that no more than the faulty suffer.
    """
    lines: list[str] = []
    with _text(path) as file:
        reader = csv.reader(_noting(file, lines), delimiter=delimiter, strict=True)
        while True:
            begin = reader.line_num + 1
            lines.clear()
            values = _checked(path, lambda: _next(reader))
            if not lines:
                return
            if values is None or (len(lines) > 1 and _are_rows(lines, values, delimiter, wanted)):
                found = [_alone(begin + number, line, delimiter) for number, line in enumerate(lines)]
            else:
                found = [Row(begin, values)]
            for row in found:
                if row.values or wanted == 1:  # an empty line is no row, but of a single column an empty value
                    yield row if wanted is None else _fill(row, wanted, delimiter)


def _are_rows(lines: Sequence[str], values: Sequence[str], delimiter: str, wanted: int | None) -> bool:
    """Whether lines that were read as one row are several: as one they do not fit, or each of them does.

    Of two columns the latter tells nothing: a note of several lines may well have a comma in each.
    """
    if wanted is None:
        return False
    return len(values) != wanted or (wanted > 2 and all(line.count(delimiter) + 1 == wanted for line in lines))


def _noting(file: IO[str], lines: list[str]) -> Iterator[str]:
    for line in file:
        lines.append(line)
        yield line


def _next(reader: Any) -> list[str] | None:
    """The values of the next row; none at the end, and where the rules of CSV are broken."""
    try:
        return next(reader, None)
    except csv.Error:
        return None


def _alone(number: int, line: str, delimiter: str) -> Row:
    """A line read by itself, with tolerance for text behind a closing quote."""
    line = line.rstrip("\r\n")
    reader = csv.reader([line, ""], delimiter=delimiter)
    try:
        values = next(reader)
    except csv.Error as problem:
        return Row(number, line.split(delimiter), str(problem))
    # The reader goes on to the next line within quotes alone.
    return Row(number, values, "a quote that is not closed" if reader.line_num > 1 else "")


def _fill(row: Row, wanted: int, delimiter: str) -> Row:
    """As many values as columns: missing ones are empty, and what is too much stays in the last."""
    values, count = row.values, len(row.values)
    problem = row.problem or ("" if count in (wanted, 0) else f"expected {wanted} values, got {count}")
    if count > wanted:
        values = [*values[: wanted - 1], delimiter.join(values[wanted - 1 :])]
    return Row(row.line, values + [""] * (wanted - count), problem)


def _text(path: Path) -> IO[str]:
    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rb") as file:
        marked = _checked(path, lambda: file.read(2)) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = "utf-16" if marked else "utf-8-sig"  # "Unicode text" of Excel is the former
    return cast("IO[str]", opened(path, "rt", encoding=encoding, errors="surrogateescape", newline=""))


def _checked(path: Path, read: Callable[[], Found]) -> Found:
    try:
        return read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise ValueError(f"{path}: expected a whole gzip file, got {problem}; copy it again") from problem


def _parquet_columns(path: Path) -> tuple[str, ...]:
    file = open_parquet(path)
    try:
        return tuple(file.schema_arrow.names)
    finally:
        file.close()


def _parquet_rows(table: Table) -> Iterator[Row]:
    file, line = open_parquet(table.path), 0
    try:
        for batch in file.iter_batches(batch_size=4096):
            columns = [[_spell(value) for value in column.to_pylist()] for column in batch.columns]
            for values in zip(*columns, strict=True):
                line += 1
                yield Row(line, list(values))
    finally:
        file.close()


def _spell(value: object) -> str:
    return "" if value is None else str(value)


def write_rows(file: IO[str], rows: Sequence[Sequence[str]]) -> None:
    """Append rows to an open CSV file, quoted where they must be."""
    plain, careful = (
        csv.writer(file, lineterminator="\n", quoting=kind) for kind in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
    for row in rows:
        broken = any("\r" in value for value in row)  # which the writer by itself takes for plain text
        (careful if broken else plain).writerow(row)
