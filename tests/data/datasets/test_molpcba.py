"""MolPCBA from SMILES and labels: checked against OGB's sizes, parsed once, refused by name if corrupt."""

import gzip
import os
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn.data.benchmark import load_benchmark
from dgn.data.datasets import molpcba
from dgn.data.datasets.molpcba import LABELS, NOTE, SMILES, featurize, read_lines, read_molpcba
from dgn.data.datasets.smiles import pack_smiles

pytest.importorskip("rdkit", reason="RDKit is optional")
DATA = Path(__file__).parents[4] / "shared" / "data" / "molpcba"
MOLECULES = ["CCO", "C", "c1ccccc1", "CN(C)(C)(C)C", "[Na+].[Cl-]"]
ATOMS, BONDS = [3, 1, 6, 6, 2], [2, 0, 6, 5, 0]
INVALID_VALENCE = (5823, 303198)  # rejected by RDKit's valence check


def write_labels(folder: Path, **changes: np.ndarray) -> None:
    """Labels of five molecules: the first has 0 and 1 for the first two tasks, the last 1 for the last task."""
    labelled, positive = np.zeros((2, 5, 128), bool)
    labelled[0, :2] = labelled[4, 127] = positive[0, 1] = positive[4, 127] = True
    arrays = {
        "known": np.packbits(labelled, axis=1),
        "positive": np.packbits(positive, axis=1),
        "tasks": np.array([f"PCBA-{task}" for task in range(128)]),
        "split": np.array([0, 0, 1, 2, 0], np.uint8),
        "num_nodes": np.array(ATOMS, np.uint16),
        "num_bonds": np.array(BONDS, np.uint16),
    }
    np.savez_compressed(folder / LABELS, **arrays | changes)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Five molecules in the layout of the shared folder."""
    folder = tmp_path / "data" / "molpcba"
    folder.mkdir(parents=True)
    (folder / SMILES).write_bytes(gzip.compress("".join(f"{smiles}\n" for smiles in MOLECULES).encode()))
    write_labels(folder)
    return folder


def test_molecules_have_the_features_of_ogb_with_missing_labels_and_the_split(folder: Path) -> None:
    graphs, expected = read_molpcba(folder), pack_smiles(MOLECULES)
    assert torch.equal(graphs.node_pointer, expected.node_pointer)
    assert torch.equal(graphs.edge_pointer, expected.edge_pointer)
    assert torch.equal(graphs.edge_index.long(), expected.edge_index)
    assert torch.equal(graphs.nodes["x"], expected.nodes["x"])
    assert torch.equal(graphs.edges["edge_attr"], expected.edges["edge_attr"])
    assert graphs.edge_index.dtype == torch.int16
    y = graphs.graphs["y"]
    assert (y.dtype, y.shape, y[0, :3].tolist(), int(y[4, 127])) == (torch.int8, (5, 128), [0, 1, -1], 1)
    assert int((y >= 0).sum()) == 3
    assert (graphs.graphs["split"].dtype, graphs.graphs["split"].tolist()) == (torch.uint8, [0, 0, 1, 2, 0])


def test_the_folder_or_its_parent_is_read_and_parsed_once(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    first = load_benchmark("molpcba", path=folder, root=root)
    assert (first.note, first.num_targets, first.metric) == (NOTE, 128, "average-precision")
    monkeypatch.setattr(molpcba, "pack_smiles", None)  # no RDKit from here on
    for path in (folder, folder.parent, folder / SMILES, folder / LABELS):
        again = load_benchmark("molpcba", path=path, root=root)
        assert (again.graphs.checksum(), again.note) == (first.graphs.checksum(), NOTE)


def test_a_compressed_file_has_the_same_graphs_and_note(folder: Path, tmp_path: Path) -> None:
    first = load_benchmark("molpcba", path=folder, root=tmp_path / "root")
    (tmp_path / "packed").mkdir()
    first.graphs.save(tmp_path / "packed" / "molpcba.npz")
    packed = load_benchmark("molpcba", path=tmp_path / "packed", root=tmp_path / "other")
    assert (packed.graphs.checksum(), packed.note) == (first.graphs.checksum(), NOTE)
    assert not (tmp_path / "other").exists()


def test_several_processes_give_the_same_graphs_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    single = featurize(MOLECULES)
    monkeypatch.setattr(molpcba, "CHUNK", 2)
    assert featurize(MOLECULES, workers=2).checksum() == featurize(MOLECULES).checksum() == single.checksum()


def test_a_broken_process_pool_is_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> None:
        raise BrokenProcessPool("terminated abruptly")

    monkeypatch.setattr(molpcba, "CHUNK", 2)
    monkeypatch.setattr(molpcba, "prefetch", break_down)
    with pytest.raises(RuntimeError, match=r"processes: expected .* call this under if __name__"):
        featurize(MOLECULES, workers=2)


@pytest.mark.parametrize(("name", "inside"), [(SMILES, 20), (LABELS, 80)])  # a byte behind the header
def test_a_truncated_or_corrupt_file_is_named(folder: Path, name: str, inside: int) -> None:
    content = (folder / name).read_bytes()
    flipped = content[:inside] + bytes([content[inside] ^ 255]) + content[inside + 1 :]
    for corrupt in (content[:-9], content[: len(content) // 2], flipped):
        (folder / name).write_bytes(corrupt)
        with pytest.raises(ValueError, match=rf"{name}: expected a complete .*file.*; copy it again"):
            read_molpcba(folder)


def test_a_missing_file_is_named(folder: Path, tmp_path: Path) -> None:
    (folder / LABELS).unlink()
    with pytest.raises(FileNotFoundError, match=rf"found no {LABELS}; copy it there"):
        load_benchmark("molpcba", path=folder, root=tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"num_nodes": np.array([3, 1, 6, 7, 2])},
            rf"{SMILES}: expected 7 atoms and 5 bonds in row 3 by {LABELS}, got 6 and 5 \(1 rows differ\); .*copy both",
        ),
        ({"num_bonds": np.array([2, 0, 5, 5, 1])}, r"expected 6 atoms and 5 bonds in row 2 .*\(2 rows differ\)"),
        ({"known": np.zeros((5, 17), np.uint8)}, rf"{LABELS}: expected known of shape \[5, 16\], got \[5, 17\]"),
        ({"num_nodes": np.array(ATOMS[:4])}, rf"{LABELS}: expected num_nodes of shape \[5\], got \[4\]"),
        ({"split": np.array([0, 0, 1, 3, 0], np.uint8)}, rf"{LABELS}: expected 0, 1 or 2 as split, got 3"),
    ],
)
def test_inconsistent_files_are_refused(folder: Path, changes: dict[str, np.ndarray], message: str) -> None:
    write_labels(folder, **changes)
    with pytest.raises(ValueError, match=message):
        read_molpcba(folder)


def test_missing_lines_and_invalid_smiles_are_refused(folder: Path) -> None:
    (folder / SMILES).write_bytes(gzip.compress(b"CCO\nC\n"))
    with pytest.raises(ValueError, match=rf"{SMILES}: expected 5 lines by {LABELS}, got 2; .* copy both again"):
        read_molpcba(folder)
    (folder / SMILES).write_bytes(gzip.compress(b"CCO\nC\nC1CC\nC\nC\n"))
    with pytest.raises(ValueError, match=rf"{SMILES}: smiles: expected .*C1CC"):
        read_molpcba(folder)


def test_molecules_with_invalid_valences_have_the_sizes_of_ogb() -> None:
    if not DATA.exists():
        pytest.skip(f"{DATA} is not at hand; it is not part of the repository")
    smiles, labels = read_lines(DATA / SMILES), molpcba.read_labels(DATA / LABELS)
    assert len(smiles) == 437_929
    assert np.bincount(labels["split"]).tolist() == [350_343, 43_793, 43_793]
    rows = [*INVALID_VALENCE, 0, 437_928]
    graphs = featurize([smiles[row] for row in rows])
    assert graphs.node_pointer.diff().tolist() == labels["num_nodes"][rows].tolist()
    assert graphs.edge_pointer.diff().tolist() == (2 * labels["num_bonds"][rows].astype(int)).tolist()


@pytest.mark.slow
@pytest.mark.skipif("DGN_TEST_MOLPCBA" not in os.environ, reason="takes minutes; set DGN_TEST_MOLPCBA=1 to run it")
def test_all_of_molpcba_has_the_published_sizes_and_packs_into_45_megabytes(tmp_path: Path) -> None:
    if not DATA.exists():
        pytest.skip(f"{DATA} is not at hand; it is not part of the repository")
    graphs = load_benchmark("molpcba", path=DATA.parent, root=tmp_path).graphs  # which checks every size
    assert (graphs.num_nodes, graphs.num_edges) == (11_373_137, 24_618_372)
    y, split = graphs.graphs["y"], graphs.graphs["split"]
    assert [int((y[split == index] >= 0).sum()) for index in range(3)] == [27_162_842, 3_477_656, 3_376_672]
    graphs.save(tmp_path / "molpcba.npz")
    assert (tmp_path / "molpcba.npz").stat().st_size <= 45_000_000
