"""Tables of text, a row at a time: CSV (also packed with gzip) and Parquet, never whole in memory."""

import csv
import gzip
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from dgn.data.parquet import open_parquet

SUFFIXES = (".csv", ".tsv", ".txt", ".smi", ".csv.gz", ".tsv.gz", ".parquet")
DELIMITERS = ",\t;|"
Found = TypeVar("Found")


class Row(NamedTuple):
    """A row: the line on which it begins, a value for each column, and what is wrong with it, if anything."""

    line: int
    values: list[str]
    problem: str = ""


@dataclass(frozen=True)
class Table:
    """A file with named columns; :meth:`rows` reads it from the beginning each time.

    Bytes that are no UTF-8 pass through unchanged. Lines are counted as an editor does: the header is line 1, and a
    quoted value may span several. In Parquet, which has no lines, the first row is line 1.
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: str = ","

    def rows(self) -> Iterator[Row]:
        return _parquet_rows(self) if self.path.suffix == ".parquet" else _csv_rows(self)

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


def _open_csv(path: Path) -> Table:
    with _text(path) as file:
        header = _checked(path, lambda: file.readline())
    if not header.strip():
        raise ValueError(f"{path}: expected names of columns in the first line, got an empty one; is the file empty?")
    delimiter = max(DELIMITERS, key=header.count)
    with _text(path) as file:
        columns = next(_reader(file, delimiter))
    return Table(path, tuple(name.strip() for name in columns), delimiter)


def _csv_rows(table: Table) -> Iterator[Row]:
    wanted, header = len(table.columns), True
    with _text(table.path) as file:
        reader, line = _reader(file, table.delimiter), 0
        while True:
            values = _checked(table.path, lambda: next(reader, None))
            if values is None:
                return
            begin, line = line + 1, reader.line_num
            if header or (not values and wanted > 1):  # an empty line; of a single column it is an empty value
                header = False
                continue
            problem = "" if len(values) == wanted else f"expected {wanted} values, got {len(values)}"
            if not values and wanted == 1:
                problem = ""
            yield Row(begin, (values + [""] * wanted)[:wanted], problem)


def _reader(file: IO[str], delimiter: str) -> Any:
    return csv.reader(file, delimiter=delimiter)


def _text(path: Path) -> IO[str]:
    packed = path.name.lower().endswith(".gz")
    return (gzip.open if packed else open)(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="")


def _checked(path: Path, read: Callable[[], Found]) -> Found:
    try:
        return read()
    except csv.Error as problem:
        raise ValueError(f"{path}: expected a table, got {problem}; look for a quote that is not closed") from problem
    except (EOFError, gzip.BadGzipFile) as problem:
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
    csv.writer(file, lineterminator="\n").writerows(rows)
