"""Peptides-func from LRGB's files: official or refused, with their labels and split."""

import gzip
import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from dgn.data.benchmark import load_benchmark
from dgn.data.datasets.peptides import SPLITS, TABLE, read_peptides

pytest.importorskip("rdkit", reason="RDKit is optional")
DATA = Path(__file__).parents[4] / "shared" / "data" / "peptides_func"
ROWS = ["NCC(=O)O", "NCC(=O)NCC(=O)O", "C[C@H](N)C(=O)O"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    labels = ["[" + ", ".join("1" if task == row else "0" for task in range(10)) + "]" for row in range(3)]
    lines = [f'{row},{smiles},G,"{labels[row]}",{row}' for row, smiles in enumerate(ROWS)]
    text = "\n".join([",smiles,peptide_seq,labels,identifier", *lines])
    (tmp_path / TABLE).write_bytes(gzip.compress(text.encode()))
    parts = {"train": np.array([2, 0]), "val": np.array([1]), "test": np.array([], np.int64)}
    (tmp_path / SPLITS).write_bytes(pickle.dumps(parts))
    return tmp_path


def test_rows_become_graphs_with_labels_and_splits(folder: Path) -> None:
    graphs = read_peptides(folder, official=False)
    assert graphs.node_pointer.diff().tolist() == [5, 9, 6]
    assert torch.equal(graphs.graphs["y"].long(), torch.eye(10)[:3].long())
    assert graphs.graphs["split"].tolist() == [0, 1, 0]


def test_other_files_are_refused_by_their_checksum(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"csv.gz: expected LRGB's file of MD5 701e.*, got .*; download it again"):
        load_benchmark("peptides-func", folder, root=folder / "cache")


def test_a_split_that_could_execute_code_is_refused(folder: Path) -> None:
    (folder / SPLITS).write_bytes(pickle.dumps({"train": Path}))
    with pytest.raises(ValueError, match=r"expected a pickle of tensors and plain Python, got .*pathlib"):
        read_peptides(folder, official=False)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=rf"peptides-func: expected {TABLE} and .* found no {TABLE}"):
        load_benchmark("peptides-func", root=tmp_path)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.exists(), reason="needs the official files")
@pytest.mark.skipif("DGN_TEST_PEPTIDES" not in os.environ, reason="takes a minute; set DGN_TEST_PEPTIDES=1 to run it")
def test_the_official_files_have_the_published_sizes(tmp_path: Path) -> None:
    benchmark = load_benchmark("peptides-func", DATA, root=tmp_path)
    graphs = benchmark.graphs
    assert (len(graphs), graphs.num_nodes, graphs.num_edges) == (15_535, 2_344_859, 4_773_974)
    assert graphs.graphs["split"].bincount().tolist() == [10_873, 2_331, 2_331]
    assert (benchmark.num_targets, benchmark.metric, benchmark.note) == (10, "average-precision", "")
