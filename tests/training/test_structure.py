"""Structural numbers in experiments: from the settings into the network."""

import pytest
import torch

from dgn.data.precompute.affinities import with_affinities
from dgn.data.precompute.encodings import with_structure
from dgn.data.precompute.structure_field import with_structure_field
from dgn.nn import KindEncoder, ScaledLinear
from dgn.training.build import build_for_inputs, build_network, count_parameters, inputs_for
from dgn.training.config import DataSettings, NetworkSettings
from dgn.training.evaluate import predict
from dgn.training.experiment import load_experiment, read_experiment
from dgn.training.shared_data import prepare
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

DATA = {"random_walk": 4, "rings": [3, 4, 5, 6]}
NETWORK = {"message": "complex", "edge_dim": 3}
SMALL = NetworkSettings(hidden=8, aggregators=("mean",))


def test_a_network_with_structural_numbers_learns() -> None:
    benchmark = with_structure(make_benchmark(), 4, (3, 4, 5, 6))
    experiment = make_experiment(data=DATA, network=NETWORK, training={"epochs": 8})
    (result,) = train(experiment, benchmark, seeds=[1], device="cpu")
    losses = [epoch["train_loss"] for epoch in result.history]
    assert losses[-1] < losses[0]


def test_graphs_without_the_numbers_or_with_others_are_refused() -> None:
    experiment = make_experiment(data=DATA)
    with pytest.raises(ValueError, match=r"random_walk 4, rings \[3, 4, 5, 6\] and cliques \[\], got 0, \[\] and \[\]"):
        prepare(experiment, make_benchmark(), torch.device("cpu"))
    with pytest.raises(ValueError, match=r"random_walk 0, rings \[\] and cliques \[\], got 4, \[3\] and \[4\]"):
        prepare(make_experiment(), with_structure(make_benchmark(), 4, (3,), (4,)), torch.device("cpu"))


def test_batches_give_what_the_graphs_give_alone() -> None:
    benchmark = with_structure(make_benchmark(), 4, (3, 4, 5, 6))
    experiment = make_experiment(data=DATA, network={**NETWORK, "aggregators": ["mean", "max"]})
    material = prepare(experiment, benchmark, torch.device("cpu"))
    network = build_network(experiment.network, benchmark, material.delta).eval()
    test = (benchmark.graphs.graphs["split"] == 2).nonzero()[:, 0]
    alone = torch.cat([network(benchmark.graphs[int(number)]) for number in test])
    together = [predict(network, batch)[batch.real_graphs[:, 0] > 0] for batch in material.splits["test"].batches]
    torch.testing.assert_close(torch.cat(together), alone)


def test_the_number_of_kinds_costs_no_parameters() -> None:
    benchmark = with_structure(make_benchmark(), 4, (3, 4, 5, 6))
    experiment = make_experiment(data=DATA, network=NETWORK)
    network = build_network(experiment.network, benchmark, 1.0)
    assert isinstance(network.edge_encoder, KindEncoder)
    bare = build_network(experiment.network, make_benchmark(), 1.0)
    added = (4 + 4) * experiment.network.hidden + 4 * 3
    assert count_parameters(network) == count_parameters(bare) + added


@pytest.mark.parametrize("name", ["zinc", "cifar10", "pattern"])
def test_what_is_known_without_the_graphs_is_enough_to_count(name: str) -> None:
    settings = NetworkSettings(hidden=8, aggregators=("mean",), message="complex", edge_dim=3)
    data = DataSettings(dataset=name, random_walk=4, rings=(3, 4))
    bare = {"zinc": 4 * 3, "cifar10": 1 * 3 + 3, "pattern": 0}[name]
    encoder = build_for_inputs(settings, inputs_for(data)).edge_encoder
    assert encoder is not None
    assert count_parameters(encoder) == bare + 2 * 3


def test_cliques_of_nodes_enter_the_network_and_edges_stay_as_they_are() -> None:
    benchmark = with_structure(make_benchmark(), cliques=(3, 4))
    assert torch.equal(benchmark.graphs.edges["edge_attr"], make_benchmark().graphs.edges["edge_attr"])
    experiment = make_experiment(data={"cliques": [3, 4]}, network=NETWORK, training={"epochs": 2})
    train(experiment, benchmark, seeds=[1], device="cpu")
    network, bare = (build_network(experiment.network, each, 1.0) for each in (benchmark, make_benchmark()))
    added = 2 * experiment.network.hidden
    assert count_parameters(network) == count_parameters(bare) + added
    known = [inputs_for(DataSettings(dataset="pattern", cliques=sizes)) for sizes in ((), (3, 4))]
    wide, narrow = (count_parameters(build_for_inputs(SMALL, inputs)) for inputs in reversed(known))
    assert wide == narrow + 2 * SMALL.hidden


def test_affinities_of_edges_enter_the_network() -> None:
    benchmark = with_affinities(make_benchmark(numbers=True), 2)
    experiment = make_experiment(data={"dataset": "cifar10", "edge_walk": 2}, network=NETWORK, training={"epochs": 2})
    train(experiment, benchmark, seeds=[1], device="cpu")
    network = build_network(experiment.network, benchmark, 1.0).eval()
    assert isinstance(network.edge_encoder, ScaledLinear)
    assert torch.equal(network.edge_encoder.scale, benchmark.affinities.scale)
    material = prepare(experiment, benchmark, torch.device("cpu"))
    alone = torch.cat([network(benchmark.graphs[n]) for n in range(len(benchmark.graphs) - 8, len(benchmark.graphs))])
    together = [predict(network, batch)[batch.real_graphs[:, 0] > 0] for batch in material.splits["test"].batches]
    torch.testing.assert_close(torch.cat(together), alone)
    for given, came in ((make_benchmark(numbers=True), 0), (with_affinities(make_benchmark(numbers=True), 3), 3)):
        with pytest.raises(ValueError, match=f"data.edge_walk: expected graphs with affinities of 2 steps, got {came}"):
            prepare(experiment, given, torch.device("cpu"))


def test_affinities_are_counted_without_the_graphs_and_need_edges_without_categories() -> None:
    settings = NetworkSettings(hidden=8, aggregators=("mean",), message="complex", edge_dim=3)
    for name, others in (("cifar10", 1), ("pattern", 0)):
        network = build_for_inputs(settings, inputs_for(DataSettings(dataset=name, edge_walk=4)))
        assert count_parameters(network.edge_encoder) == (others + 4) * 3 + 3
    refused = {
        "data.rings": ["pattern/plus", "data.rings=[3]", "network.edge_dim=8"],
        "the categories of zinc": ["zinc/tuned"],
        "no network.edge_dim": ["pattern/plus"],
    }
    for came, (name, *changes) in refused.items():
        with pytest.raises(ValueError, match=f"data.edge_walk: expected .*, got {came}"):
            load_experiment(name, ["data.edge_walk=4", *changes])


def test_settings_that_were_kept_before_there_were_cliques_or_affinities_have_none() -> None:
    experiment = make_experiment(data=DATA)
    kept = experiment.to_dict()
    del kept["data"]["cliques"], kept["data"]["edge_walk"]
    assert read_experiment(kept) == experiment


@pytest.mark.parametrize("name", ["rings", "cliques"])
@pytest.mark.parametrize("sizes", [[2], [5, 5]])
def test_sizes_are_checked(name: str, sizes: list[int]) -> None:
    with pytest.raises(ValueError, match=f"data.{name}: expected different numbers from 3"):
        make_experiment(data={name: sizes})


@pytest.mark.parametrize("field", ["rings", "random_walk"])
def test_structural_numbers_can_be_the_field(field: str) -> None:
    benchmark = with_structure_field(with_structure(make_benchmark(), 4, (3, 4)), field, k=1)
    experiment = make_experiment(data={"random_walk": 4, "rings": [3, 4], "field": field}, training={"epochs": 2})
    material = prepare(experiment, benchmark, torch.device("cpu"))
    assert bool((material.store.weights.edge != 0).any())
    train(experiment, benchmark, seeds=[1], device="cpu")
    with pytest.raises(ValueError, match=f"expected graphs with directions from eigenvectors, got some from {field}"):
        prepare(make_experiment(data={"random_walk": 4, "rings": [3, 4]}), benchmark, torch.device("cpu"))
