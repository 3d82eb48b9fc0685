"""Tables: columns, line numbers as in an editor, and files that are not tables."""

import csv
import gzip
from pathlib import Path

import pytest
from rdkit import Chem
from rdkit.Chem import AllChem

from dgn.data.datasets.smiles import IMPOSSIBLE, parse_smiles
from dgn.molecules.table import open_table, write_rows


def test_lines_are_those_of_an_editor(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('\ufeffsmiles,note\nCO,"two\nlines"\n\nCC,x\nC,a,b\nN\n')
    table = open_table(path)
    assert table.columns == ("smiles", "note")
    assert [(row.line, row.values) for row in table.rows()] == [
        (2, ["CO", "two\nlines"]), (5, ["CC", "x"]), (6, ["C", "a,b"]), (7, ["N", ""]),
    ]  # fmt: skip
    assert [bool(row.problem) for row in table.rows()] == [False, False, True, True]


@pytest.mark.parametrize(
    ("lines", "faulty"),
    [
        (["CO,1,a", 'CC,2,"b', "CN,3,c", "CF,4,d"], [3]),  # open to the end of the file
        (['"CO,1,a', "CC,2,b", '"CN,3,c', "CF,4,d"], [2, 4]),  # open to the next quote, and text behind that
        (["CO,1,a", 'CC,2,"b', "CN,3,c", 'CF,4,d"'], [3]),  # open to a quote at the end of a value
        (["CO,1,a", 'CC,2,"b', *["CN,3,c"] * 20_000, "CF,4,d"], [3]),  # more than the reader takes for a value
        (["CO,1,a", f"CC,2,{'b' * (1 << 18)}", "CN,3,c"], [3]),
        (["CO,1,a", '"CC" x,2,b', "CN,3,c"], []),
    ],
)
def test_an_open_quote_or_a_long_value_affects_only_its_own_line(
    tmp_path: Path, lines: list[str], faulty: list[int]
) -> None:
    path = tmp_path / "t.csv"
    path.write_text("\n".join(["smiles,y,note", *lines, ""]))
    rows = list(open_table(path).rows())
    assert [row.line for row in rows] == list(range(2, len(lines) + 2))
    assert [row.line for row in rows if row.problem] == faulty
    intact = [row for row in rows if not row.problem and '"' not in lines[row.line - 2]]
    assert [",".join(row.values) for row in intact] == [lines[row.line - 2] for row in intact]


def test_a_note_of_several_lines_is_one_value(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('smiles,note\nCCO,"hello\nworld, yes"\nCC,b\n')
    assert [(row.line, row.values, row.problem) for row in open_table(path).rows()] == [
        (2, ["CCO", "hello\nworld, yes"], ""),
        (4, ["CC", "b"], ""),
    ]


@pytest.mark.parametrize("delimiter", ["\t", ";", "|"])
def test_delimiters_are_detected(tmp_path: Path, delimiter: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_text(f"smiles{delimiter}y\nCO{delimiter}1\n")
    assert next(open_table(path).rows()).values == ["CO", "1"]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ('"logP, 25 C, water";smiles\n1.5;CO\n', ("logP, 25 C, water", "smiles")),
        ("logP (octanol, water, 25 C);smiles\n1,5;CO\n2;CC\n", ("logP (octanol, water, 25 C)", "smiles")),
        ("IC50, nM;smiles\n1,5;CO\n", ("IC50, nM", "smiles")),
        ("smiles,logP;25 C\nCO,1.5\n", ("smiles", "logP;25 C")),
    ],
)
def test_other_delimiters_may_stand_in_names(tmp_path: Path, text: str, columns: tuple[str, ...]) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text)
    assert open_table(path).columns == columns


@pytest.mark.parametrize("name", ["t.txt", "t.tsv.gz"])
def test_unicode_text_of_excel(tmp_path: Path, name: str) -> None:
    path, text = tmp_path / name, "smiles\tLöslichkeit\r\nCO\t1\r\n".encode("utf-16")
    path.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    table = open_table(path)
    assert table.columns == ("smiles", "Löslichkeit")
    assert [(row.line, row.values) for row in table.rows()] == [(2, ["CO", "1"])]


def test_gzipped_files_and_other_bytes(tmp_path: Path) -> None:
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"smiles,name\nCO,caf\xe9\n"))
    value = next(open_table(path).rows()).values[1]
    assert value.encode("utf-8", "surrogateescape") == b"caf\xe9"
    path.write_bytes(gzip.compress(b"smiles,name\nCO,x\n" * 1000)[:-9])
    with pytest.raises(ValueError, match="expected a complete gzip file"):
        list(open_table(path).rows())


def test_a_flipped_bit_of_a_gzipped_file_is_refused(tmp_path: Path) -> None:
    path, packed = tmp_path / "t.csv.gz", gzip.compress(b"smiles,name\nCO,x\nCCN,water\n", mtime=0)
    refused = 0
    for bit in range(8 * len(packed)):
        damaged = bytearray(packed)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            list(open_table(path).rows())
        except ValueError as problem:
            refused += "expected a complete gzip file" in str(problem)
    assert refused > 4 * len(packed)


def test_a_carriage_return_within_a_value_is_quoted(tmp_path: Path) -> None:
    path, rows = tmp_path / "t.csv", [["CO", "a\rb"], ["CC", 'c, "d"'], ["N", "e"]]
    with path.open("w", newline="") as file:
        write_rows(file, rows)
    with path.open(newline="") as file:
        assert list(csv.reader(file)) == rows
    assert path.read_bytes().endswith(b"\nN,e\n")


def test_one_column_keeps_its_empty_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("smiles\nCO\n\nCC\n")
    assert [row.values for row in open_table(path).rows()] == [["CO"], [""], ["CC"]]


def test_a_file_that_is_not_parquet_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="Parquet is read by pyarrow")
    path = tmp_path / "t.parquet"
    path.write_text("smiles,y\nC,1\n")
    with pytest.raises(ValueError, match="expected a parquet table"):
        open_table(path)


@pytest.mark.parametrize("name", ["t.parquet", "T.PARQUET"])
def test_parquet(tmp_path: Path, name: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / name
    parquet.write_table(pyarrow.table({"smiles": ["CO", None], "y": [1.5, 2.0]}), path)
    assert [(row.line, row.values) for row in open_table(path).rows()] == [(1, ["CO", "1.5"]), (2, ["", "2.0"])]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "is the file empty"),
        ("t.csv", "smiles,y\n", "got only a header"),
        ("t.csv", "smiles,y,y\nC,1,2\n", "'y' more than once"),
        ("t.xls", "smiles\nC\n", "got '.xls'; save it as .csv"),
        ("t.csv", 'smiles,"y\nCO,1\nCC,2\n', "first line, got a quote that is not closed"),
        ("t.csv", f"smiles,{'y' * (1 << 18)}\nCO,1\n", "first line, got field larger"),
    ],
)
def test_files_that_are_not_tables_are_refused(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        open_table(tmp_path / name)


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="found no file"):
        open_table(tmp_path / "none.csv")


def test_smi_files_need_no_header(tmp_path: Path) -> None:
    path = tmp_path / "library.smi"
    path.write_text("CCO ethyl alcohol\nc1ccccc1\tbenzene\n\nCC\n")
    table = open_table(path)
    assert table.columns == ("smiles", "name")
    assert [tuple(row) for row in table.rows()] == [
        (1, ["CCO", "ethyl alcohol"], ""), (2, ["c1ccccc1", "benzene"], ""), (4, ["CC", ""], ""),
    ]  # fmt: skip
    path.write_text("smiles\tname\nCCO\tethanol\n")
    assert [row.values for row in open_table(path).rows()] == [["CCO", "ethanol"]]


def test_an_unreadable_first_line_of_a_smi_file_is_a_row(tmp_path: Path) -> None:
    path = tmp_path / "library.smi"
    for first in ("C((\tbad", "c1cccc1", "[Xx],y"):
        path.write_text(f"{first}\nCCO\tethanol\n")
        assert [row.line for row in open_table(path).rows()] == [1, 2]


@pytest.mark.parametrize("name", ["library.sdf", "library.sdf.gz"])
def test_sdf_files_are_tables_of_properties(tmp_path: Path, name: str) -> None:
    blocks = []
    for smiles, title, values in (("C[C@H](N)O", "first", {"logS": "-1.5"}), ("CCO", "", {"logS": "0.3", "pH": "7"})):
        molecule = Chem.AddHs(Chem.MolFromSmiles(smiles))
        AllChem.EmbedMolecule(molecule, randomSeed=1)
        block = f"{title}\n" + Chem.MolToMolBlock(molecule).partition("\n")[2]
        blocks.append(block + "".join(f">  <{key}>\n{value}\n\n" for key, value in values.items()) + "$$$$\n")
    content = "".join([blocks[0], "broken\n$$$$\n", blocks[1]]).encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    table = open_table(tmp_path / name)
    assert table.columns == ("smiles", "name", "logS", "pH")
    assert [tuple(row) for row in table.rows()] == [
        (1, ["C[C@H](N)O", "first", "-1.5", ""], ""), (2, [""] * 4, "RDKit cannot read it"),
        (3, ["CCO", "", "0.3", "7"], ""),
    ]  # fmt: skip


def test_an_sdf_record_keeps_its_properties_without_an_end_and_with_an_impossible_valence(tmp_path: Path) -> None:
    blocks = []
    for smiles in ("C[C@H](N)F(F)F", "CCO"):
        molecule = Chem.MolFromSmiles(smiles, sanitize=False)
        molecule.UpdatePropertyCache(strict=False)
        AllChem.Compute2DCoords(molecule)
        Chem.WedgeMolBonds(molecule, molecule.GetConformer())
        blocks.append(Chem.MolToMolBlock(molecule, kekulize=False)[:-1] + "\n>  <logS>\n1.5\n")
    path = tmp_path / "library.sdf"
    for end in ("", "\n"):
        path.write_text("\n$$$$\n".join(blocks) + end)
        table = open_table(path)
        assert table.columns == ("smiles", "name", "logS")
        first, last = table.rows()
        assert last.values == ["CCO", "", "1.5"]
        assert (first.values[2], first.problem) == ("1.5", "")
        read = parse_smiles(first.values[0])
        assert "impossible valence of fluorine" in read.GetProp(IMPOSSIBLE)
        assert Chem.FindMolChiralCenters(read) == Chem.FindMolChiralCenters(parse_smiles("C[C@H](N)F(F)F"))
