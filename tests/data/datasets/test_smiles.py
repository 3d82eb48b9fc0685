"""Features of molecules against the ogb package and against every molecule of MolHIV."""

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
FOLDER = Path(__file__).parents[4] / "shared" / "data" / "molhiv"
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
    expected, molecule = ogb.smiles2graph(smiles), read_smiles(smiles)
    assert molecule.x.tolist() == expected["node_feat"].tolist()
    assert molecule.edge_index.tolist() == expected["edge_index"].tolist()
    assert molecule.edge_attr.tolist() == expected["edge_feat"].tolist()


def test_features_without_a_category_fit_the_encoders_too() -> None:
    graphs = pack_smiles([*ODD, "C[Pt@SP1](F)(Cl)[H]"])
    assert (graphs.nodes["x"] < torch.tensor(ATOM_SIZES)).all()
    assert (graphs.edges["edge_attr"] < torch.tensor(BOND_SIZES)).all()
    assert (benchmarks.ATOMS, benchmarks.BONDS) == (ATOM_SIZES, BOND_SIZES)


def test_invalid_valences_are_read_and_invalid_smiles_are_refused() -> None:
    assert len(read_smiles("CN(C)(C)(C)C").x) == 6
    for invalid in ("C1CC", "c1cccc1"):
        with pytest.raises(ValueError, match=f"smiles: expected .*{invalid}"):
            read_smiles(invalid)


@pytest.mark.parametrize("smiles", ["CC(=O)\u041e", "\u0421CO", "CCO\u200b"])
def test_non_ascii_lookalikes_of_atoms_are_refused(smiles: str) -> None:
    with pytest.raises(ValueError, match="smiles: expected ASCII"):
        read_smiles(smiles)
    assert len(read_smiles("CCO \u00e9thanol").x) == 3  # a name after the SMILES is ignored


def test_no_molecules_are_no_graphs() -> None:
    assert len(pack_smiles([])) == 0


@pytest.mark.slow
def test_all_of_molhiv_is_rebuilt_from_its_smiles() -> None:
    if not FOLDER.exists():
        pytest.skip(f"{FOLDER} is not at hand; it is not part of the repository")
    expected = load_benchmark("molhiv", path=FOLDER).graphs
    with gzip.open(FOLDER / "molhiv_smiles.csv.gz", "rt") as file:
        graphs = pack_smiles(row["smiles"] for row in csv.DictReader(file))
    assert torch.equal(graphs.node_pointer, expected.node_pointer)
    assert torch.equal(graphs.edge_pointer, expected.edge_pointer)
    assert torch.equal(graphs.edge_index, expected.edge_index.long())
    assert torch.equal(graphs.nodes["x"], expected.nodes["x"])
    assert torch.equal(graphs.edges["edge_attr"], expected.edges["edge_attr"])
