"""Tables of SMILES with missing labels: parsed, split, cached, and packed for machines without RDKit."""

import gzip
from pathlib import Path

import pytest
import torch

from dgn.data import PackedGraphs
from dgn.data.benchmark import TASKS, Benchmark, load_benchmark
from dgn.data.datasets.moleculenet import read_moleculenet

DATA = Path(__file__).parents[4] / "shared" / "data" / "moleculenet"


def write_table(folder: Path, name: str = "tox21") -> Path:
    """Ten molecules: eight with one scaffold, and two others."""
    pytest.importorskip("rdkit")
    tasks = [f"task {index}" for index in range(TASKS[name].num_targets)]
    smiles = [*(f"{'C' * n}c1ccccc1" for n in range(1, 9)), "C1CC1C", "CCO"]
    rows = [[*(str((row + task) % 2) if row != task else "" for task in range(len(tasks)))] for row in range(10)]
    lines = [",".join([*tasks, "mol_id", "smiles"])]
    lines += [",".join([*row, f"T{n}", text]) for n, (row, text) in enumerate(zip(rows, smiles, strict=True))]
    file = folder / f"{name}.csv.gz"
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    return file


def load(path: Path, root: Path) -> Benchmark:
    return load_benchmark("tox21", path=path, root=root)


def test_a_table_becomes_graphs_with_missing_labels_and_a_scaffold_split(tmp_path: Path) -> None:
    graphs = read_moleculenet(write_table(tmp_path))
    assert graphs.graphs["split"].tolist() == [0] * 8 + [1, 2]
    y = graphs.graphs["y"]
    assert (y.shape, y.dtype) == ((10, 12), torch.int8)
    assert (y < 0).nonzero().tolist() == [[n, n] for n in range(10)]
    assert y[0, 1:4].tolist() == [1, 0, 1]
    assert graphs.node_pointer.diff().tolist() == [*range(7, 15), 4, 3]
    assert graphs.edge_index.dtype == torch.uint8


def test_a_table_is_parsed_once_and_packed_files_are_read_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, root = write_table(tmp_path), tmp_path / "root"
    first = load(tmp_path, root)
    assert (first.num_targets, first.metric, first.note[:11]) == (12, "roc-auc", "MoleculeNet")
    monkeypatch.setattr("dgn.data.datasets.moleculenet.pack_smiles", None)  # no RDKit from here on
    assert load(tmp_path, root).graphs.checksum() == first.graphs.checksum()
    file.unlink()
    assert load_benchmark("tox21", root=root).graphs.checksum() == first.graphs.checksum()
    first.graphs.save(tmp_path / "tox21.npz")
    packed = load(tmp_path, tmp_path / "other")
    assert packed.graphs.checksum() == first.graphs.checksum()
    assert packed.note == first.note


def test_compressed_files_round_trip_and_leave_no_temporary_file(tmp_path: Path, small: PackedGraphs) -> None:
    small.save(tmp_path / "small.npz")
    assert PackedGraphs.load(tmp_path / "small.npz").checksum() == small.checksum()
    assert [file.name for file in tmp_path.iterdir()] == ["small.npz"]


def test_missing_and_malformed_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"download https://.*/tox21\.csv\.gz"):
        load_benchmark("tox21", root=tmp_path)
    file = write_table(tmp_path)
    text = gzip.decompress(file.read_bytes())
    for content, message in (
        (text[:-20], "expected a complete table"),
        (gzip.compress(text.replace(b",smiles", b",structure")), "one named smiles"),
        (gzip.compress(text.replace(b",T3", b"7,T3")), "expected 0, 1 or an empty field in column task 11, got"),
    ):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_moleculenet(file)


@pytest.mark.slow
def test_tox21_has_its_molecules_and_every_task_in_every_split() -> None:
    if not DATA.exists():
        pytest.skip(f"{DATA} is not at hand; it is not part of the repository")
    graphs = read_moleculenet(DATA / "tox21.csv.gz")
    split, y = graphs.graphs["split"], graphs.graphs["y"]
    assert split.bincount().tolist() == [6411, 801, 802]
    assert all(bool((y[split == index] == label).any(dim=0).all()) for index in range(3) for label in (0, 1))
