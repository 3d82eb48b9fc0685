"""OGB's raw files: equal to OGB's graphs, and refused by name if missing, truncated or inconsistent."""

import gzip
from pathlib import Path

import pytest
import torch

from dgn.data.benchmark import load_benchmark
from dgn.data.datasets.ogb import raw_files, read_ogb, read_table

RAW = {
    "num-node-list": "2\n3\n1\n",
    "num-edge-list": "1\n2\n0\n",
    "edge": "0,1\n0,1\n1,2\n",
    "node-feat": "".join(f"{i},0,1,5,0,0,1,0,{i % 2}\n" for i in range(6)),
    "edge-feat": "0,0,0\n1,0,1\n3,2,1\n",
    "graph-label": "0\n1\n0\n",
}
SPLIT = {"train": "0\n", "valid": "2\n", "test": "1\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three molecules in OGB's layout."""
    for subfolder, files in (("raw", RAW), ("split/scaffold", SPLIT)):
        target = tmp_path / "ogbg_molhiv" / subfolder
        target.mkdir(parents=True)
        for name, text in files.items():
            (target / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))
    return tmp_path / "ogbg_molhiv"


def rewrite(folder: Path, name: str, text: str) -> None:
    (folder / "raw" / f"{name}.csv.gz").write_bytes(gzip.compress(text.encode()))


def test_molecules_equal_those_of_ogb(folder: Path) -> None:
    graphs = read_ogb(folder)
    assert graphs.node_pointer.tolist() == [0, 2, 5, 6]
    assert graphs.edge_pointer.tolist() == [0, 2, 6, 6]
    assert graphs.edge_index.tolist() == [[0, 1, 0, 1, 1, 2], [1, 0, 1, 0, 2, 1]]
    assert graphs.edges["edge_attr"].tolist() == [[0, 0, 0]] * 2 + [[1, 0, 1]] * 2 + [[3, 2, 1]] * 2
    assert graphs.nodes["x"][:, 0].tolist() == [0, 1, 2, 3, 4, 5]
    assert graphs.graphs["y"].tolist() == [[0.0], [1.0], [0.0]]
    assert graphs.graphs["split"].tolist() == [0, 2, 1]
    assert {value.dtype for value in (graphs.edge_index, graphs.nodes["x"], graphs.edges["edge_attr"])} == {torch.uint8}


def test_empty_labels_are_nan(tmp_path: Path) -> None:
    file = tmp_path / "graph-label.csv.gz"
    file.write_bytes(gzip.compress(b",,1.0\n0.0,,\n,,\n1.0,0.0,1\n"))
    expected = torch.tensor([[-1, -1, 1], [0, -1, -1], [-1, -1, -1], [1, 0, 1]])
    assert torch.equal(torch.from_numpy(read_table(file, None)).nan_to_num(-1).long(), expected)


def test_the_benchmark_is_read_from_root_or_path_and_cached(folder: Path, tmp_path: Path) -> None:
    by_root = load_benchmark("molhiv", root=folder.parent)
    by_path = load_benchmark("molhiv", path=folder, root=tmp_path / "other")
    assert by_root.graphs.checksum() == by_path.graphs.checksum()
    assert (by_root.objective, by_root.metric, by_root.note) == ("multi-label", "roc-auc", "")
    rewrite(folder, "graph-label", "1\n1\n0\n")  # other contents: read again
    assert load_benchmark("molhiv", root=folder.parent).graphs.graphs["y"].sum() == 2
    for file in raw_files(folder):
        file.unlink()
    assert load_benchmark("molhiv", root=folder.parent).graphs.graphs["y"].sum() == 2  # as it was packed


def test_missing_files_are_named_with_their_url(folder: Path, tmp_path: Path) -> None:
    (folder / "raw" / "edge.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"found no edge\.csv\.gz; unpack http://.*/hiv\.zip"):
        load_benchmark("molhiv", root=folder.parent)
    with pytest.raises(FileNotFoundError, match=r"pcba\.zip"):
        load_benchmark("molpcba", root=tmp_path)


def test_an_incomplete_folder_is_not_replaced_by_the_cache_of_another(folder: Path, tmp_path: Path) -> None:
    load_benchmark("molhiv", path=folder, root=tmp_path / "cache")
    (folder / "raw" / "edge.csv.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"found no edge\.csv\.gz"):
        load_benchmark("molhiv", path=folder, root=tmp_path / "cache")
    assert len(load_benchmark("molhiv", root=tmp_path / "cache").graphs) == 3


@pytest.mark.parametrize("name", ["node-feat", "edge-feat"])
def test_categories_that_do_not_fit_a_byte_are_refused(folder: Path, name: str) -> None:
    rewrite(folder, name, "300" + RAW[name][1:])
    with pytest.raises(ValueError, match=rf"{name}\.csv\.gz: expected categories up to 255, got 300"):
        read_ogb(folder)


@pytest.mark.parametrize("name", RAW)
def test_a_truncated_file_is_named(folder: Path, name: str) -> None:
    file = folder / "raw" / f"{name}.csv.gz"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(ValueError, match=rf"{name}\.csv\.gz: expected a complete gzip file"):
        read_ogb(folder)


@pytest.mark.parametrize("name", RAW)
def test_a_missing_row_is_detected(folder: Path, name: str) -> None:
    rewrite(folder, name, RAW[name].partition("\n")[2])
    with pytest.raises(ValueError, match=r"expected \d+ rows by"):
        read_ogb(folder)


def test_corruption_inside_a_file_is_detected(folder: Path) -> None:
    file = folder / "raw" / "node-feat.csv.gz"
    content = bytearray(file.read_bytes())
    content[-6] ^= 1  # the stored checksum
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"node-feat\.csv\.gz: expected a complete gzip file"):
        read_ogb(folder)
    rewrite(folder, "node-feat", RAW["node-feat"].replace("3,0", "<html>,0"))
    with pytest.raises(ValueError, match=r"node-feat\.csv\.gz: expected 6 rows of 9 numbers"):
        read_ogb(folder)


def test_edges_to_other_graphs_and_wrong_splits_are_refused(folder: Path) -> None:
    rewrite(folder, "edge", "0,2\n0,1\n1,2\n")
    with pytest.raises(ValueError, match=r"edge\.csv\.gz: expected nodes of the edge's graph"):
        read_ogb(folder)
    rewrite(folder, "edge", RAW["edge"])
    (folder / "split" / "scaffold" / "test.csv.gz").write_bytes(gzip.compress(b"0\n"))
    with pytest.raises(ValueError, match="expected each of 3 graphs once, got 2 different"):
        read_ogb(folder)
