"""Features of molecules against ogb's own code and against every molecule of MolHIV."""

import csv
import gzip
from pathlib import Path

import pytest
import torch

from dgn.data import benchmark as benchmarks
from dgn.data.benchmark import load_benchmark
from dgn.data.datasets.smiles import pack_smiles, read_smiles
from dgn.nn import ATOM_SIZES, BOND_SIZES

pytest.importorskip("rdkit", reason="RDKit is optional")
FOLDER = Path(__file__).parents[3] / "shared" / "data" / "molhiv"
ODD = [
    "Cl[C@H](/C=C/C)Br",
    "F/C=C\\F",
    "[Na+].[Cl-]",
    "c1ccncc1",
    "[CH3]",
    "*C",
    "[U+6]",
    "F[P-](F)(F)(F)(F)F",
    "N->[Fe]",
    "[H][H]",
    "CC(=O)O[C@@H]1CCCC[C@H]1N",
]


@pytest.mark.parametrize("smiles", ODD)
@pytest.mark.filterwarnings("ignore")
def test_features_equal_those_of_ogb(smiles: str) -> None:
    ogb = pytest.importorskip("ogb.utils.mol", exc_type=ImportError)
    expected, found = ogb.smiles2graph(smiles), read_smiles(smiles)
    assert found.x.tolist() == expected["node_feat"].tolist()
    assert found.edge_index.tolist() == expected["edge_index"].tolist()
    assert found.edge_attr.tolist() == expected["edge_feat"].tolist()


def test_features_fit_the_encoders_also_where_there_is_no_category() -> None:
    found = pack_smiles([*ODD, "C[Pt@SP1](F)(Cl)[H]"])
    assert (found.nodes["x"] < torch.tensor(ATOM_SIZES)).all()
    assert (found.edges["edge_attr"] < torch.tensor(BOND_SIZES)).all()
    assert (benchmarks.ATOMS, benchmarks.BONDS) == (ATOM_SIZES, BOND_SIZES)


def test_wrong_valences_are_read_and_nonsense_is_refused() -> None:
    assert len(read_smiles("CN(C)(C)(C)C").x) == 6
    for nonsense in ("C1CC", "c1cccc1"):
        with pytest.raises(ValueError, match=f"smiles: expected .*{nonsense}"):
            read_smiles(nonsense)


@pytest.mark.parametrize("smiles", ["CC(=O)\u041e", "\u0421CO", "CCO\u200b"])
def test_letters_that_only_look_like_atoms_are_refused(smiles: str) -> None:
    with pytest.raises(ValueError, match="smiles: expected ASCII"):
        read_smiles(smiles)
    assert len(read_smiles("CCO \u00e9thanol").x) == 3  # a name behind it is none of the molecule


def test_no_molecules_pack_to_nothing() -> None:
    assert len(pack_smiles([])) == 0


@pytest.mark.slow
def test_all_of_molhiv_is_rebuilt_from_its_smiles() -> None:
    if not FOLDER.exists():
        pytest.skip(f"{FOLDER} is not at hand; it is not part of the repository")
    expected = load_benchmark("molhiv", path=FOLDER).graphs
    with gzip.open(FOLDER / "molhiv_smiles.csv.gz", "rt") as file:
        found = pack_smiles(row["smiles"] for row in csv.DictReader(file))
    assert torch.equal(found.node_pointer, expected.node_pointer)
    assert torch.equal(found.edge_pointer, expected.edge_pointer)
    assert torch.equal(found.edge_index, expected.edge_index.long())
    assert torch.equal(found.nodes["x"], expected.nodes["x"])
    assert torch.equal(found.edges["edge_attr"], expected.edges["edge_attr"])
