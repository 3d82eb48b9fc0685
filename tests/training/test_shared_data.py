"""What an experiment reads of its graphs, and what it trains for; groups of directions need gaps of eigenvalues."""

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Data

import dgn
from dgn.data import benchmark_from_graphs
from dgn.testing import path
from dgn.training.preprocessing import first_directions
from dgn.training.shared_data import prepare
from dgn.training.trainer import train
from dgn.transforms import AddDirections
from tests.training.small import make_benchmark, make_experiment

GROUPS = {"aggregators": ["mean", "dx1-group2", "av1-group2", "dx1"]}
RESAMPLE = {"resample": True}


def test_gaps_are_read_and_left_behind():
    store = prepare(make_experiment(network=GROUPS), make_benchmark(), torch.device("cpu")).store
    assert store.weights.edge.size(1) == 4  # two directions of a group, their average, and dx1
    assert set(store.nodes) == {"x"}
    resampled = prepare(
        make_experiment(network=GROUPS, augmentation=RESAMPLE), make_benchmark(), torch.device("cpu")
    ).store
    assert set(resampled.nodes) == {"x", "gap"}
    assert resampled.eigenspaces is not None


def test_more_directions_are_found_where_a_group_needs_them(monkeypatch, tmp_path):
    monkeypatch.setenv("DGN_CACHE", str(tmp_path))
    experiment = make_experiment(network={"aggregators": ["mean", "dx1-group"]})
    assert experiment.num_directions == 3
    assert prepare(experiment, make_benchmark(), torch.device("cpu")).store.weights.edge.size(1) == 3


@pytest.mark.parametrize("aggregators", [["mean", "dx1"], ["mean", "max"]])
def test_directions_that_others_asked_for_change_nothing(aggregators):
    settings = {"reflection": True, "distortion": 0.2} if "dx1" in aggregators else {}
    experiment = make_experiment(network={"aggregators": aggregators}, augmentation=settings)
    wide = make_benchmark()
    alone = first_directions(wide.graphs, experiment.num_directions)
    assert alone.edges.get("edge_field", torch.empty(0, 0)).size(1) == experiment.num_directions
    results = [train(experiment, each, (0,), device="cpu") for each in (wide, replace(wide, graphs=alone))]
    assert results[0][0].metrics == results[1][0].metrics


def test_edge_features_that_are_not_there_are_named():
    bare = replace(make_benchmark().graphs, edges={})
    experiment = make_experiment(network={"aggregators": ["mean"], "message": "complex", "edge_dim": 4})
    with pytest.raises(ValueError, match=r"network.edge_dim: expected none for graphs without edge features, got 4"):
        train(experiment, replace(make_benchmark(), graphs=bare, edge_categories=None), (0,), device="cpu")


def test_arcsine_potentials_are_trained_on_and_predicted_with(monkeypatch, tmp_path):
    monkeypatch.setenv("DGN_CACHE", str(tmp_path / "cache"))
    benchmark = make_benchmark()
    bare = replace(benchmark, graphs=first_directions(benchmark.graphs, 0))
    potentials = {}
    for arcsine in (False, True):
        experiment = make_experiment(data={"arcsine": arcsine}, network={"num_eigenvector_features": 1})
        store = prepare(experiment, bare, torch.device("cpu")).store
        potentials[arcsine] = store.nodes["node_potential"]
    directions = dgn.directions(bare.graphs, k=1)
    torch.testing.assert_close(potentials[False], directions.potential.float())
    torch.testing.assert_close(potentials[True], dgn.arcsine(directions.potential, directions.component).float())


@pytest.mark.parametrize("message", ["simple", "complex"])
@pytest.mark.parametrize(
    "name", ["av1-global", "dx1-global", "dx1-split", "av2-split-soft2", "walks2of2", "walks2of1-permuted"]
)
def test_constructions_of_the_appendix_are_trained_from_their_names(name, message):
    experiment = make_experiment(network={"aggregators": ["mean", name], "message": message}, training={"epochs": 5})
    (result,) = train(experiment, make_benchmark(), (0,), device="cpu")
    losses = [row["train_loss"] for row in result.history]
    assert min(losses) < losses[0]


def test_training_does_not_see_the_basis(tmp_path):
    """A network of groups learns the same whatever bases are drawn; one of directions does not."""
    scores = {}
    for kind, names in (("groups", ["mean", "dx1-group2", "av2-group2"]), ("directions", ["mean", "dx1", "av2"])):
        for name, augmentation in (("plain", {}), ("drawn", RESAMPLE)):
            experiment = make_experiment(network={"aggregators": names}, augmentation=augmentation)
            (result,) = train(experiment, make_benchmark(), (0,), tmp_path / kind / name, "cpu")
            scores[kind, name] = [row["train_loss"] for row in result.history]
    assert scores["groups", "plain"] == pytest.approx(scores["groups", "drawn"], rel=1e-3)
    assert scores["directions", "plain"] != pytest.approx(scores["directions", "drawn"], rel=1e-3)


def test_labels_are_smoothed_in_training_and_scored_as_they_are():
    experiment = make_experiment(training={"label_smoothing": 0.2})
    material = prepare(experiment, make_benchmark("classification"), torch.device("cpu"))
    assert material.objective.smoothing == 0.2
    assert {split.objective.smoothing for split in material.splits.values()} == {0.0}
    losses = [
        train(each, make_benchmark("classification"), (0,), device="cpu")[0].history[0]["train_loss"]
        for each in (experiment, make_experiment())
    ]
    assert losses[0] != pytest.approx(losses[1], rel=1e-5)
    with pytest.raises(ValueError, match=r"training.label_smoothing: expected 0 for regression"):
        prepare(experiment, make_benchmark(), torch.device("cpu"))


def test_coordinates_have_no_gaps():
    benchmark = make_benchmark(coordinates=True)
    nodes = {name: values for name, values in benchmark.graphs.nodes.items() if name != "gap"}
    without_gaps = replace(benchmark, graphs=replace(benchmark.graphs, nodes=nodes))
    with pytest.raises(ValueError, match="gap: expected shape"):
        prepare(make_experiment(network=GROUPS), without_gaps, torch.device("cpu"))


@pytest.mark.parametrize("part", ["train", "val", "test"])
@pytest.mark.parametrize(("objective", "label"), [("multi-label", 0.0), ("regression", torch.nan)])
def test_a_part_that_cannot_be_scored_is_named_before_training(objective, label, part):
    benchmark = make_benchmark(objective)
    y = benchmark.graphs.graphs["y"].clone()
    y[benchmark.graphs.graphs["split"] == ("train", "val", "test").index(part)] = label
    lacking = replace(benchmark, graphs=benchmark.graphs.with_values(graphs={"y": y}))
    with pytest.raises(ValueError, match=f"labels of {part}: expected"):
        prepare(make_experiment(), lacking, torch.device("cpu"))


def test_a_field_that_fits_no_potential_is_refused_unless_the_potential_is_an_input():
    draw = torch.Generator().manual_seed(0)
    graphs = [AddDirections(1)(Data(x=torch.rand(5, 3), edge_index=path(5)[0], y=torch.rand(1))) for _ in range(10)]
    for graph in graphs:
        graph.edge_field = torch.randn(8, 1, generator=draw)
    benchmark, network = benchmark_from_graphs(graphs, "regression"), {"aggregators": ["mean", "dx1"]}
    data = {"dataset": "own"}
    with pytest.raises(ValueError, match="edge_field: expected the slope of node_potential"):
        prepare(make_experiment(data=data, network=network), benchmark, torch.device("cpu"))
    features = network | {"num_eigenvector_features": 1}
    assert prepare(make_experiment(data=data, network=features), benchmark, torch.device("cpu")).sizes["train"] == 8
