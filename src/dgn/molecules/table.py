"""Tables read row by row: CSV and SDF (also gzipped), Parquet and Excel of any size."""

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

from dgn.data.io.parquet import checked_batches, open_parquet
from dgn.graph.checks import check_package
from dgn.molecules.columns import SMILES_NAMES
from dgn.molecules.workbook import sheet_columns, sheet_names, sheet_rows

SUFFIXES = (".csv", ".tsv", ".txt", ".smi", ".smi.gz", ".csv.gz", ".tsv.gz", ".parquet", ".xlsx", ".sdf", ".sdf.gz")
SDF, UNREADABLE = (".sdf", ".sdf.gz"), "RDKit cannot read it"  # the problem of a record
SMI, SMI_COLUMNS = (".smi", ".smi.gz"), ("smiles", "name")  # without a header: a SMILES, white space, a name
DELIMITERS = "\t;|,"  # commas last: names and numbers contain them too
LOOK = 20  # lines used to detect the delimiter
T = TypeVar("T")


class Row(NamedTuple):
    """A row: its first line, one value per column, and its problem, if any."""

    line: int
    values: list[str]
    problem: str = ""


@dataclass(frozen=True)
class Table:
    """A file with named columns; :meth:`rows` reads it from the beginning each time.

    Text is UTF-8, or UTF-16 with a BOM; other bytes pass through unchanged. Lines are counted as an
    editor does: the header is line 1, and a quoted value may span several. In Parquet and SDF, the first row is line 1;
    in Excel, lines are the numbers of rows. A molecule of an SDF file has the columns smiles and name, and one for each
    property. ``sheet`` is that of a workbook, ``note`` a remark on what is not read.
    """

    path: Path
    columns: tuple[str, ...]
    delimiter: str = ","
    has_header: bool = True
    sheet: str = ""
    note: str = ""

    def rows(self) -> Iterator[Row]:
        if self.sheet:
            return (Row(*row) for row in sheet_rows(self.path, self.sheet, len(self.columns)))
        if self.path.suffix.lower() == ".parquet":
            return _parquet_rows(self)
        if self.path.name.lower().endswith(SDF):
            return _sdf_rows(self)
        if not self.has_header:
            return _smi_rows(self.path)
        return islice(_csv_rows(self.path, self.delimiter, len(self.columns)), 1, None)

    def position(self, column: str) -> int:
        """The index of a column; an unknown name is refused, with the nearest one."""
        from dgn.graph.checks import check_option

        check_option("column", column, self.columns)
        return self.columns.index(column)


def open_table(path: str | Path) -> Table:
    """The table in a file, with its header read; an empty file and duplicate column names are refused."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: expected a table ({', '.join(SUFFIXES)}), found no file; check the path")
    if path.name.lower().endswith(".parquet"):
        table = Table(path, _parquet_columns(path))
    elif path.name.lower().endswith(".xlsx"):
        table = _open_workbook(path)
    elif path.name.lower().endswith(SDF):
        table = Table(path, _sdf_columns(path))
    elif path.name.lower().endswith(SUFFIXES):
        table = _open_csv(path)
    else:
        raise ValueError(f"{path}: expected a file called {', '.join(SUFFIXES)}, got {path.suffix!r}; save it as .csv")
    duplicates = sorted({name for name in table.columns if table.columns.count(name) > 1})
    if duplicates:
        raise ValueError(f"{path}: expected distinct column names, got {duplicates[0]!r} more than once; rename one")
    if next(table.rows(), None) is None:
        raise ValueError(f"{path}: expected rows of molecules, got only a header; is the file complete?")
    return table


def check_text(path: Path, names: Iterable[str]) -> None:
    """Refuse names that are not UTF-8: the model card and the plot could not be written."""
    for name in names:
        if name.encode("utf-8", "ignore").decode() != name:
            shown = name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            raise ValueError(f"{path}: expected text in UTF-8, got {shown!r}; save it as CSV UTF-8")


def _open_workbook(path: Path) -> Table:
    sheet, *others = sheet_names(path)
    note = f"sheet {sheet} is read, not {', '.join(others)}" if others else ""
    return Table(path, sheet_columns(path, sheet), sheet=sheet, note=note)


def _open_csv(path: Path) -> Table:
    with _text(path) as file:
        lines = _checked(path, lambda: list(islice(file, LOOK)))
    if not lines or not lines[0].strip():
        raise ValueError(f"{path}: expected column names in the first line, got an empty one; is the file empty?")
    if path.name.lower().endswith(SMI) and not _is_header(lines[0]):
        return Table(path, SMI_COLUMNS, has_header=False)
    delimiter = _delimiter(lines)
    first = next(_csv_rows(path, delimiter))
    if first.problem:
        raise ValueError(f"{path}: expected column names in the first line, got {first.problem}; correct it")
    return Table(path, tuple(name.strip() for name in first.values), delimiter)


def _sdf_molecules(path: Path) -> Iterator[Any]:
    """RDKit's molecules of an SDF file, None for one that it cannot read.

    Records are separated here: RDKit's reader takes a truncated one together with the next.
    """
    check_package("SDF", "rdkit")
    from rdkit import rdBase

    lines: list[str] = []
    with _text(path) as file, rdBase.BlockLogs():
        for line in _checked_lines(path, file):
            if line.startswith("$$$$"):
                yield _read_record("".join(lines))
                lines.clear()
            else:
                lines.append(line.encode("utf-8", "replace").decode())
        if "".join(lines).strip():  # the last record may lack its end
            yield _read_record("".join(lines))


def _read_record(record: str) -> Any:
    """The molecule of a record with its properties, None if RDKit cannot read it; valences may be impossible.

    Those are refused or kept where the SMILES is read (:func:`dgn.data.datasets.smiles.parse_smiles`).
    """
    from rdkit import Chem

    supplier, record = Chem.SDMolSupplier(), f"{record.rstrip()}\n\n$$$$\n"
    supplier.SetData(record)
    molecule: Any = next(iter(supplier), None)
    if molecule is not None:
        return molecule
    supplier.SetData(record, sanitize=False)
    molecule = next(iter(supplier), None)
    if molecule is None:
        return None
    molecule.UpdatePropertyCache(strict=False)
    try:
        Chem.SanitizeMol(molecule, Chem.SANITIZE_ALL ^ Chem.SANITIZE_PROPERTIES)
    except ValueError:
        return None
    # What RDKit does itself when it sanitizes: stereochemistry from coordinates, then hydrogens are implicit.
    if molecule.GetNumConformers() and molecule.GetConformer().Is3D():
        Chem.AssignStereochemistryFrom3D(molecule)
    else:
        Chem.AssignChiralTypesFromBondDirs(molecule)
        Chem.AssignStereochemistry(molecule, cleanIt=True)
    return Chem.RemoveHs(molecule, sanitize=False)


def _sdf_columns(path: Path) -> tuple[str, ...]:
    """SMILES, name, and all properties in the order of their first occurrence; those of the same names are left out."""
    readable = (molecule for molecule in _sdf_molecules(path) if molecule is not None)
    properties = dict.fromkeys(name for molecule in readable for name in molecule.GetPropNames())
    return (*SMI_COLUMNS, *(name for name in properties if name not in SMI_COLUMNS))


def _sdf_rows(table: Table) -> Iterator[Row]:
    from rdkit import Chem

    for number, molecule in enumerate(_sdf_molecules(table.path), start=1):
        if molecule is None:
            yield Row(number, [""] * len(table.columns), UNREADABLE)
            continue
        name = molecule.GetProp("_Name") if molecule.HasProp("_Name") else ""
        values = [molecule.GetProp(key) if molecule.HasProp(key) else "" for key in table.columns[2:]]
        yield Row(number, [Chem.MolToSmiles(molecule), name, *values])


def _is_header(line: str) -> bool:
    """Whether a line of a .smi file names a column of SMILES, and does not begin with a molecule.

    >>> [_is_header(line) for line in ("smiles name", 'id,"Canonical SMILES"', "CCO mol 1", "C(( unreadable")]
    [True, True, False, False]
    """
    from dgn.data.datasets.smiles import parse_smiles

    words = re.split(r'[\s"\'|;,]+', line.strip().lower())
    try:
        return not parse_smiles(line.split()[0]).GetNumAtoms()
    except ValueError:
        return any(word in SMILES_NAMES or "smiles" in word for word in words)


def _smi_rows(path: Path) -> Iterator[Row]:
    """The rows of a file without a header: SMILES and a name, which may contain spaces; empty lines are skipped."""
    with _text(path) as file:
        for number, line in enumerate(_checked_lines(path, file), start=1):
            smiles, _, name = line.strip().replace("\t", " ").partition(" ")
            if smiles:
                yield Row(number, [smiles, name.strip()])


def _checked_lines(path: Path, file: IO[str]) -> Iterator[str]:
    while line := _checked(path, file.readline):
        yield line


def _delimiter(lines: Sequence[str]) -> str:
    """The delimiter: as frequent in the lines below as in the header, not counting quoted values.

    >>> _delimiter(["IC50, nM;SMILES", "1,5;CCO"]), _delimiter(['"y; z",smiles', "1,C"])
    (';', ',')
    """
    unquoted = [re.sub('"[^"]*"', "", line) for line in lines]
    counts = {sign: unquoted[0].count(sign) for sign in DELIMITERS if sign in unquoted[0]}
    scores = {sign: (sum(line.count(sign) == count for line in unquoted), count) for sign, count in counts.items()}
    return max(scores, key=lambda sign: scores[sign], default=",")


def _csv_rows(path: Path, delimiter: str, width: int | None = None) -> Iterator[Row]:
    """The rows from the header on, each of ``width`` values.

    An unclosed quote makes one value of all rows up to the next quote. If a row over several lines is invalid CSV, or
    looks like several rows, each line is parsed on its own, so that only the faulty one is affected.
    """
    lines: list[str] = []
    with _text(path) as file:
        reader = csv.reader(_recording(file, lines), delimiter=delimiter, strict=True)
        while True:
            start = reader.line_num + 1
            lines.clear()
            values = _checked(path, lambda: _next(reader))
            if not lines:
                return
            if values is None or (len(lines) > 1 and _are_rows(lines, values, delimiter, width)):
                rows = [_parse_line(start + offset, line, delimiter) for offset, line in enumerate(lines)]
            else:
                rows = [Row(start, values)]
            for row in rows:
                if row.values or width == 1:  # an empty line is skipped, but is an empty value of a single column
                    yield row if width is None else _pad(row, width, delimiter)


def _are_rows(lines: Sequence[str], values: Sequence[str], delimiter: str, width: int | None) -> bool:
    """Whether lines that were parsed as one row are several: its width is wrong, or that of each line is right.

    The latter is no evidence with two columns: a quoted text of several lines may have a comma in each.
    """
    if width is None:
        return False
    return len(values) != width or (width > 2 and all(line.count(delimiter) + 1 == width for line in lines))


def _recording(file: IO[str], lines: list[str]) -> Iterator[str]:
    for line in file:
        lines.append(line)
        yield line


def _next(reader: Any) -> list[str] | None:
    """The values of the next row; None at the end of the file and for invalid CSV."""
    try:
        return next(reader, None)
    except csv.Error:
        return None


def _parse_line(number: int, line: str, delimiter: str) -> Row:
    """One line parsed on its own; text behind a closing quote is tolerated."""
    line = line.rstrip("\r\n")
    reader = csv.reader([line, ""], delimiter=delimiter)
    try:
        values = next(reader)
    except csv.Error as problem:
        return Row(number, line.split(delimiter), str(problem))
    # The reader consumes the second line only within quotes.
    return Row(number, values, "a quote that is not closed" if reader.line_num > 1 else "")


def _pad(row: Row, width: int, delimiter: str) -> Row:
    """The row with one value per column: missing ones are empty, extra ones are joined to the last."""
    values, count = row.values, len(row.values)
    problem = row.problem or ("" if count in (width, 0) else f"expected {width} values, got {count}")
    if count > width:
        values = [*values[: width - 1], delimiter.join(values[width - 1 :])]
    return Row(row.line, values + [""] * (width - count), problem)


def _text(path: Path) -> IO[str]:
    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    with opened(path, "rb") as file:
        has_bom = _checked(path, lambda: file.read(2)) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    encoding = "utf-16" if has_bom else "utf-8-sig"  # Excel writes "Unicode text" as UTF-16
    return cast("IO[str]", opened(path, "rt", encoding=encoding, errors="surrogateescape", newline=""))


def _checked(path: Path, read: Callable[[], T]) -> T:
    try:
        return read()
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise ValueError(f"{path}: expected a complete gzip file, got {problem}; copy it again") from problem


def _parquet_columns(path: Path) -> tuple[str, ...]:
    file = open_parquet(path)
    try:
        return tuple(file.schema_arrow.names)
    finally:
        file.close()


def _parquet_rows(table: Table) -> Iterator[Row]:
    file, line = open_parquet(table.path), 0
    try:
        for batch in checked_batches(table.path, file, 4096):
            columns = [[_to_text(value) for value in column.to_pylist()] for column in batch.columns]
            for values in zip(*columns, strict=True):
                line += 1
                yield Row(line, list(values))
    finally:
        file.close()


def _to_text(value: object) -> str:
    return "" if value is None else str(value)


def write_rows(file: IO[str], rows: Sequence[Sequence[str]]) -> None:
    """Append rows to an open CSV file, quoted where needed."""
    minimal, quoted = (
        csv.writer(file, lineterminator="\n", quoting=quoting) for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
    for row in rows:
        has_return = any("\r" in value for value in row)  # which QUOTE_MINIMAL does not quote
        (quoted if has_return else minimal).writerow(row)
