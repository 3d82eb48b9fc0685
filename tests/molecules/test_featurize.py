"""Featurization: unreadable SMILES are reported; workers give the same graphs."""

import pytest
import torch

from dgn.data.datasets.smiles import pack_smiles
from dgn.molecules.featurize import featurize, featurize_chunks

CHUNKS = [["CCO", "bad("], ["\udce9"], ["c1ccccc1", " CC "]]


def test_unreadable_smiles_are_reported_and_the_others_kept() -> None:
    found = featurize(["CCO", "C1CC", "", "c1ccccc1", "\udce9"])
    assert [bool(problem) for problem in found.problems] == [False, True, True, False, True]
    expected = pack_smiles(["CCO", "c1ccccc1"])
    assert found.graphs.checksum() == expected.checksum()


def test_all_smiles_of_a_molecule_give_the_same_features() -> None:
    one, other, mirrored = featurize(["C[C@H](N)O", "O[C@@H](N)C", "C[C@@H](N)O"]).graphs.nodes["x"].view(3, 4, 9)
    assert sorted(one.tolist()) == sorted(other.tolist()) != sorted(mirrored.tolist())
    assert one[1, 1] in (1, 2)


@pytest.mark.slow
def test_workers_give_the_same_graphs_in_order() -> None:
    serial, parallel = (list(featurize_chunks(CHUNKS, workers)) for workers in (0, 1))
    assert [chunk.problems for chunk in serial] == [chunk.problems for chunk in parallel]
    for one, other in zip(serial, parallel, strict=True):
        assert torch.equal(one.graphs.nodes["x"], other.graphs.nodes["x"])
        assert torch.equal(one.graphs.edge_index, other.graphs.edge_index.long())
