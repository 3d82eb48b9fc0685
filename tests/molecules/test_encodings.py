"""Structural encodings at prediction equal those of training; weights without them are refused."""

import pytest
import torch

from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import add_encodings, with_encodings
from dgn.molecules.encodings import EDGE_TYPES, OFFSET, SCALE, trained_encodings
from dgn.molecules.ensemble_training import make_benchmark
from dgn.molecules.featurize import featurize
from dgn.training.config import DataSettings

SMILES = ["c1ccccc1CN", "C1CCCC1O", "CCO", "[Na+].[Cl-]", "c1ccc2ccccc2c1C1CC1"]
DATA = DataSettings(dataset="table", rwse_steps=4, ring_sizes=(5, 6))


def test_encodings_at_prediction_equal_those_of_training() -> None:
    graphs = add_directions(featurize(SMILES).graphs, 1)
    split = torch.tensor([0, 0, 0, 1, 1], dtype=torch.uint8)
    trained = with_encodings(make_benchmark(graphs, torch.zeros(5, 1), split, "regression"), 4, (5, 6))
    structure = trained.structure
    assert structure is not None
    assert structure.edge_types is not None
    weights = {SCALE: structure.scale, OFFSET: structure.offset, EDGE_TYPES: structure.edge_types.features()}
    restored = trained_encodings(DATA, weights)
    assert restored is not None
    # Behind the five molecules the benchmark repeats the validation split.
    encoded, expected = add_encodings(graphs, restored), trained.graphs.select(torch.arange(5))
    assert torch.equal(encoded.nodes["structure"], expected.nodes["structure"])
    assert torch.equal(encoded.edges["edge_attr"], expected.edges["edge_attr"])
    assert encoded.edges["edge_attr"].max() > 0
    assert encoded.nodes["structure"][:, 4].count_nonzero() == 5  # of cyclopentanol


def test_molecules_without_bonds_have_encodings() -> None:
    structure = trained_encodings(
        DataSettings(dataset="table", rwse_steps=2), {SCALE: torch.ones(2), OFFSET: torch.zeros(2)}
    )
    assert structure is not None
    assert add_encodings(featurize(["[Na]"]).graphs, structure).nodes["structure"].tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, r"expected those of a network with 6 structural encodings.*got none called structure\.scale"),
        (
            {SCALE: torch.ones(3), OFFSET: torch.ones(3), EDGE_TYPES: torch.ones(1, 15)},
            "6 structural encodings.*got 3;",
        ),
    ],
)
def test_weights_of_another_network_are_refused(weights: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        trained_encodings(DATA, weights)
