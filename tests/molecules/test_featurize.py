"""Featurization: unreadable SMILES are reported; workers give the same graphs."""

import pytest
import torch

from dgn.data.datasets.smiles import CENTRES, pack_smiles
from dgn.molecules.featurize import featurize, featurize_chunks

CHUNKS = [["CCO", "bad("], ["\udce9"], ["c1ccccc1", " CC "]]


def test_unreadable_smiles_are_reported_and_the_others_kept() -> None:
    featurized = featurize(["CCO", "C1CC", "", "c1ccccc1", "\udce9"])
    assert [bool(problem) for problem in featurized.problems] == [False, True, True, False, True]
    expected = pack_smiles(["CCO", "c1ccccc1"], featurization=CENTRES)
    assert featurized.graphs.checksum() == expected.checksum()


def test_all_smiles_of_a_molecule_give_the_same_graph() -> None:
    one, other, mirrored = featurize(["C[C@H](N)O", "O[C@@H](N)C", "C[C@@H](N)O"]).graphs.nodes["x"].view(3, 4, 9)
    assert torch.equal(one, other)
    assert sorted(one.tolist()) != sorted(mirrored.tolist())
    assert set(one[:, 1].tolist()) in ({0, 1}, {0, 2})


@pytest.mark.parametrize(
    ("labelled", "plain"),
    [("[2H]O[2H]", "O"), ("[2H]C([2H])([2H])O", "CO"), ("[3H]c1ccccc1", "c1ccccc1"), ("[13CH3]C(=O)[18OH]", "CC(=O)O")],
)
def test_isotopes_are_not_read(labelled: str, plain: str) -> None:
    one, other = (featurize([smiles]).graphs for smiles in (labelled, plain))
    assert one.checksum() == other.checksum()


@pytest.mark.parametrize(
    ("smiles", "reason"),
    [
        ("CF(F)F", "impossible valence of fluorine (atom 2 has 3 bonds)"),
        ("CC(C)(C)(C)C", "impossible valence of carbon (atom 2 has 5 bonds)"),
        ("OCCN(C)(C)(C)C", "impossible valence of nitrogen (atom 4 has 5 bonds)"),
    ],
)
def test_impossible_valences_are_refused_by_the_atom_or_kept(smiles: str, reason: str) -> None:
    refused, accepted = featurize([smiles, "CO"]), featurize([smiles, "CO"], valence="keep")
    assert (len(refused.graphs), refused.problems, refused.remarks) == (1, [reason, ""], ["", ""])
    assert (len(accepted.graphs), accepted.problems, accepted.remarks) == (2, ["", ""], [reason, ""])
    assert len(pack_smiles([smiles])) == 1  # official files are read as OGB does


@pytest.mark.slow
def test_workers_give_the_same_graphs_in_order() -> None:
    serial, parallel = (list(featurize_chunks(CHUNKS, workers)) for workers in (0, 1))
    assert [chunk.problems for chunk in serial] == [chunk.problems for chunk in parallel]
    for one, other in zip(serial, parallel, strict=True):
        assert torch.equal(one.graphs.nodes["x"], other.graphs.nodes["x"])
        assert torch.equal(one.graphs.edge_index, other.graphs.edge_index.long())
