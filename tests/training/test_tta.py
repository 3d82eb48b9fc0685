"""Mirror images: what is said of both sides is the same for a graph and its mirror image."""

from dataclasses import replace

import pytest
import torch

from dgn.data.datasets.coordinates import add_coordinates
from dgn.training.build import Inputs, build_for_inputs
from dgn.training.ensemble_inference import ask
from dgn.training.inference import load_trained, predict_graphs, predict_split
from dgn.training.shared_data import prepare
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment, molecules

WAYS = {"aggregators": ["mean", "fwd2", "dx1", "dx2-signed"], "hidden": 16}
CPU = torch.device("cpu")
PARTS = ("train", "val", "test")


def mirror_image(graphs):
    """Each graph the other way round along its last coordinate, which is an input as well."""
    place, batch = graphs.nodes["potential"].clone(), graphs.graph.batch
    for number in range(len(graphs)):
        last = place[batch == number, -1]
        place[batch == number, -1] = last.min() + last.max() - last
    x = torch.cat([graphs.nodes["x"][:, :1], place], dim=1)
    return add_coordinates(graphs.with_values(nodes={"x": x}), place)


def pictures():
    graphs, draw = molecules(), torch.Generator().manual_seed(3)
    x = torch.rand(graphs.num_nodes, 3, generator=draw)
    return add_coordinates(graphs.with_values(nodes={"x": x}), x[:, 1:])


@pytest.mark.parametrize("readout", ["sum", "nodes"])
def test_a_graph_and_its_mirror_image_get_the_same_answer(readout):
    graphs, answers = pictures(), {}
    torch.manual_seed(0)
    network = None
    for both_sides in (False, True):
        settings = make_experiment(network={**WAYS, "readout": readout, "tta_mirror": both_sides}).network
        network = network or build_for_inputs(settings, Inputs(3, None, 2), 1.0).eval()
        answers[both_sides] = [ask([network], settings, 2, each, CPU)[0] for each in (graphs, mirror_image(graphs))]
    one, other = answers[False]
    assert (one - other).abs().max() > 1e-2
    torch.testing.assert_close(*answers[True], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(answers[True][0], (one + other) / 2, rtol=1e-5, atol=1e-5)


def test_a_network_that_reads_no_field_sees_mirrored_inputs():
    graphs, blind = pictures(), {"aggregators": ["mean", "max"], "hidden": 16}
    plain, both = (make_experiment(network={**blind, "tta_mirror": flag}).network for flag in (False, True))
    network = build_for_inputs(plain, Inputs(3, None, 1), 1.0).eval()
    one, other = (ask([network], plain, 1, each, CPU) for each in (graphs, mirror_image(graphs)))
    assert (one - other).abs().max() > 1e-3
    bare = replace(graphs, edges={})
    torch.testing.assert_close(ask([network], both, 1, bare, CPU), (one + other) / 2, rtol=1e-5, atol=1e-5)


def test_an_answer_does_not_depend_on_the_graphs_beside_one(tmp_path):
    """In a graph of its own, an input may happen to be the coordinate."""
    graphs, benchmark = pictures(), make_benchmark("classification")
    x = graphs.nodes["x"].clone()
    first = graphs.graph.batch == 0
    x[first, 0] = x[first, 2]
    graphs = graphs.with_values(nodes={"x": x}, graphs=benchmark.graphs.graphs)
    pictured = replace(benchmark, graphs=graphs, node_categories=None, edge_categories=None, coordinates=True)
    experiment = make_experiment(network={**WAYS, "tta_mirror": True}, training={"epochs": 1})
    train(experiment, pictured, [7], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-7", pictured)
    every, alone = (
        predict_graphs(trained, graphs, "cpu"),
        predict_graphs(trained, graphs.select(torch.tensor([0])), "cpu"),
    )
    torch.testing.assert_close(every[:1], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("augmentation", [{}, {"mirror": True}, {"mirror": True, "distortion": 0.1}])
def test_training_is_the_same_and_scores_are_of_both_sides(augmentation, tmp_path):
    benchmark, found = make_benchmark("classification", coordinates=True), {}
    for both_sides in (False, True):
        experiment = make_experiment(network={**WAYS, "tta_mirror": both_sides}, augmentation=augmentation)
        (found[both_sides],) = train(experiment, benchmark, [7], tmp_path / str(both_sides), "cpu")
    one, both = found[False], found[True]
    assert [row["train_loss"] for row in one.history] == [row["train_loss"] for row in both.history]
    assert [row["val_loss"] for row in one.history] != [row["val_loss"] for row in both.history]
    trained = load_trained(tmp_path / "True" / "seed-7", benchmark)
    for part in PARTS:
        said, truth = predict_split(trained, part, "cpu")
        right = float((said.argmax(dim=1) == truth).float().mean())
        assert right == pytest.approx(both.metrics[part]["accuracy"], abs=1e-6)


def test_other_graphs_need_places_too(tmp_path):
    benchmark = make_benchmark("classification", coordinates=True)
    experiment = make_experiment(network={**WAYS, "tta_mirror": True}, training={"epochs": 1})
    train(experiment, benchmark, [7], tmp_path, "cpu")
    trained, graphs = load_trained(tmp_path / "seed-7", benchmark), benchmark.graphs
    bare = replace(graphs, nodes={"x": graphs.nodes["x"]})
    with pytest.raises(ValueError, match=r"^potential: expected numbers of nodes, as small has, got none; add them"):
        predict_graphs(trained, bare, "cpu")


def test_the_field_is_left_behind_once_the_weights_of_both_sides_are_known():
    benchmark = make_benchmark(coordinates=True)
    for augmentation, is_kept in (({"mirror": True}, False), ({"mirror": True, "distortion": 0.1}, True)):
        experiment = make_experiment(network=WAYS, augmentation=augmentation)
        store = prepare(experiment, benchmark, CPU).store
        assert ("field" in store.edges) == is_kept
        assert (store.mirrored is None) == is_kept


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_branches_and_both_sides_on_a_gpu_are_as_on_the_cpu():
    benchmark = make_benchmark("classification", coordinates=True)
    network = {**WAYS, "ensemble_size": 2, "tta_mirror": True}
    experiment = make_experiment(network=network, training={"ema_decay": 0.9, "learning_rate": 1e-3})
    (here,), (there,) = (train(experiment, benchmark, [7], device=device) for device in ("cpu", "cuda"))
    for row, other in zip(here.history, there.history, strict=True):
        assert row["train_loss"] == pytest.approx(other["train_loss"], rel=1e-3)
        assert row["val_loss"] == pytest.approx(other["val_loss"], rel=1e-3)
