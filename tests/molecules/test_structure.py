"""Structural numbers of molecules at prediction: those of training, and refused where the weights have none."""

import pytest
import torch

from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import add_encodings, with_encodings
from dgn.molecules.featurize import featurize
from dgn.molecules.members import make_benchmark
from dgn.molecules.structure import KINDS, OFFSET, SCALE, trained_structure
from dgn.training.config import DataSettings

SMILES = ["c1ccccc1CN", "C1CCCC1O", "CCO", "[Na+].[Cl-]", "c1ccc2ccccc2c1C1CC1"]
DATA = DataSettings(dataset="table", rwse_steps=4, ring_sizes=(5, 6))


def test_molecules_get_what_they_had_in_training() -> None:
    graphs = add_directions(featurize(SMILES).graphs, 1)
    part = torch.tensor([0, 0, 0, 1, 1], dtype=torch.uint8)
    trained = with_encodings(make_benchmark(graphs, torch.zeros(5, 1), part, "regression"), 4, (5, 6))
    known = trained.structure
    assert known is not None
    assert known.edge_types is not None
    weights = {SCALE: known.scale, OFFSET: known.offset, KINDS: known.edge_types.features()}
    found = trained_structure(DATA, weights)
    assert found is not None
    # Behind the five molecules the benchmark has those of the validation once more.
    asked, expected = add_encodings(graphs, found), trained.graphs.select(torch.arange(5))
    assert torch.equal(asked.nodes["structure"], expected.nodes["structure"])
    assert torch.equal(asked.edges["edge_attr"], expected.edges["edge_attr"])
    assert asked.edges["edge_attr"].max() > 0
    assert asked.nodes["structure"][:, 4].count_nonzero() == 5  # of cyclopentanol


def test_molecules_without_bonds_have_numbers() -> None:
    known = trained_structure(
        DataSettings(dataset="table", rwse_steps=2), {SCALE: torch.ones(2), OFFSET: torch.zeros(2)}
    )
    assert known is not None
    assert add_encodings(featurize(["[Na]"]).graphs, known).nodes["structure"].tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, r"expected those of a network with 6 structural numbers.*got none called structure\.scale"),
        ({SCALE: torch.ones(3), OFFSET: torch.ones(3), KINDS: torch.ones(1, 15)}, "6 structural numbers.*got 3;"),
    ],
)
def test_weights_of_another_network_are_refused(weights: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trained_structure(DATA, weights)
