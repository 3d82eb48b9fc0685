"""Structural encodings in experiments: from the settings into the network."""

import pytest
import torch

from dgn.data.precompute.encodings import with_encodings
from dgn.nn import EdgeTypeEncoder
from dgn.training.build import build_for_inputs, build_network, count_parameters, inputs_for
from dgn.training.config import DataSettings, NetworkSettings
from dgn.training.evaluate import predict
from dgn.training.shared_data import prepare
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

DATA = {"rwse_steps": 4, "ring_sizes": [3, 4, 5, 6]}
NETWORK = {"message": "complex", "edge_dim": 3}


def test_the_training_loss_falls_with_structural_encodings() -> None:
    benchmark = with_encodings(make_benchmark(), 4, (3, 4, 5, 6))
    experiment = make_experiment(data=DATA, network=NETWORK, training={"epochs": 8})
    (result,) = train(experiment, benchmark, seeds=[1], device="cpu")
    losses = [epoch["train_loss"] for epoch in result.history]
    assert losses[-1] < losses[0]


def test_graphs_with_missing_or_other_encodings_are_refused() -> None:
    experiment = make_experiment(data=DATA)
    with pytest.raises(ValueError, match=r"random_walk 4 and rings \[3, 4, 5, 6\], got 0 and \[\]"):
        prepare(experiment, make_benchmark(), torch.device("cpu"))
    with pytest.raises(ValueError, match=r"random_walk 0 and rings \[\], got 4 and \[3\]"):
        prepare(make_experiment(), with_encodings(make_benchmark(), 4, (3,)), torch.device("cpu"))


def test_predictions_on_batches_equal_those_on_single_graphs() -> None:
    benchmark = with_encodings(make_benchmark(), 4, (3, 4, 5, 6))
    experiment = make_experiment(data=DATA, network={**NETWORK, "aggregators": ["mean", "max"]})
    shared = prepare(experiment, benchmark, torch.device("cpu"))
    network = build_network(experiment.network, benchmark, shared.delta).eval()
    test = (benchmark.graphs.graphs["split"] == 2).nonzero()[:, 0]
    alone = torch.cat([network(benchmark.graphs[int(index)]) for index in test])
    together = [predict(network, batch)[batch.graph_mask[:, 0] > 0] for batch in shared.splits["test"].batches]
    torch.testing.assert_close(torch.cat(together), alone)


def test_the_number_of_edge_types_costs_no_parameters() -> None:
    benchmark = with_encodings(make_benchmark(), 4, (3, 4, 5, 6))
    experiment = make_experiment(data=DATA, network=NETWORK)
    network = build_network(experiment.network, benchmark, 1.0)
    assert isinstance(network.edge_encoder, EdgeTypeEncoder)
    bare = build_network(experiment.network, make_benchmark(), 1.0)
    added = (4 + 4) * experiment.network.hidden + 4 * 3
    assert count_parameters(network) == count_parameters(bare) + added


@pytest.mark.parametrize("name", ["zinc", "cifar10", "pattern"])
def test_parameters_are_counted_without_loading_graphs(name: str) -> None:
    settings = NetworkSettings(hidden=8, aggregators=("mean",), message="complex", edge_dim=3)
    data = DataSettings(dataset=name, rwse_steps=4, ring_sizes=(3, 4))
    bare = {"zinc": 4 * 3, "cifar10": 1 * 3 + 3, "pattern": 0}[name]
    encoder = build_for_inputs(settings, inputs_for(data)).edge_encoder
    assert encoder is not None
    assert count_parameters(encoder) == bare + 2 * 3


@pytest.mark.parametrize("sizes", [[2], [5, 5]])
def test_invalid_ring_sizes_are_refused(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match=r"data\.ring_sizes: expected distinct sizes of at least 3"):
        make_experiment(data={"ring_sizes": sizes})
