"""Test-time augmentation: predictions are equal for a graph and its mirror image."""

from dataclasses import replace

import pytest
import torch

from dgn.data.datasets.coordinates import add_coordinates
from dgn.training.build import Inputs, build_for_inputs
from dgn.training.inference import predict_ensemble
from dgn.training.model import load_trained, predict_split
from dgn.training.shared_data import prepare
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment, molecules

NETWORK = {"aggregators": ["mean", "fwd2", "dx1", "dx2-signed"], "hidden": 16}
CPU = torch.device("cpu")
SPLITS = ("train", "val", "test")


def mirror_image(graphs):
    """Each graph reflected along its last coordinate, which is a node feature as well."""
    coordinates, batch = graphs.nodes["node_potential"].clone(), graphs.graph.batch
    for index in range(len(graphs)):
        last = coordinates[batch == index, -1]
        coordinates[batch == index, -1] = last.min() + last.max() - last
    x = torch.cat([graphs.nodes["x"][:, :1], coordinates], dim=1)
    return add_coordinates(graphs.with_values(nodes={"x": x}), coordinates)


def pictures():
    graphs, draw = molecules(), torch.Generator().manual_seed(3)
    x = torch.rand(graphs.num_nodes, 3, generator=draw)
    return add_coordinates(graphs.with_values(nodes={"x": x}), x[:, 1:])


@pytest.mark.parametrize("readout", ["sum", "nodes"])
def test_a_graph_and_its_mirror_image_get_the_same_prediction(readout):
    graphs, predictions = pictures(), {}
    torch.manual_seed(0)
    network = None
    for tta_mirror in (False, True):
        settings = make_experiment(network={**NETWORK, "readout": readout, "tta_mirror": tta_mirror}).network
        network = network or build_for_inputs(settings, Inputs(3, None, 2), 1.0).eval()
        predictions[tta_mirror] = [
            predict_ensemble([network], settings, 2, view, CPU)[0] for view in (graphs, mirror_image(graphs))
        ]
    one, other = predictions[False]
    assert (one - other).abs().max() > 1e-2
    torch.testing.assert_close(*predictions[True], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(predictions[True][0], (one + other) / 2, rtol=1e-5, atol=1e-5)


def test_a_network_without_directions_reads_reflected_features():
    graphs, isotropic = pictures(), {"aggregators": ["mean", "max"], "hidden": 16}
    plain, both = (make_experiment(network={**isotropic, "tta_mirror": flag}).network for flag in (False, True))
    network = build_for_inputs(plain, Inputs(3, None, 1), 1.0).eval()
    one, other = (predict_ensemble([network], plain, 1, view, CPU) for view in (graphs, mirror_image(graphs)))
    assert (one - other).abs().max() > 1e-3
    bare = replace(graphs, edges={})
    torch.testing.assert_close(predict_ensemble([network], both, 1, bare, CPU), (one + other) / 2, rtol=1e-5, atol=1e-5)


def test_a_prediction_does_not_depend_on_the_other_graphs(tmp_path):
    """In a single graph, a feature may equal the coordinate by chance."""
    graphs, benchmark = pictures(), make_benchmark("classification")
    x = graphs.nodes["x"].clone()
    first = graphs.graph.batch == 0
    x[first, 0] = x[first, 2]
    graphs = graphs.with_values(nodes={"x": x}, graphs=benchmark.graphs.graphs)
    pictured = replace(benchmark, graphs=graphs, node_categories=None, edge_categories=None, coordinates=True)
    experiment = make_experiment(network={**NETWORK, "tta_mirror": True}, training={"epochs": 1})
    train(experiment, pictured, [7], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-7", "cpu")
    together, alone = (
        trained.outputs(graphs)[0],
        trained.outputs(graphs.select(torch.tensor([0])))[0],
    )
    torch.testing.assert_close(together[:1], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("augmentation", [{}, {"mirror": True}, {"mirror": True, "distortion": 0.1}])
def test_training_is_unchanged_and_scores_average_both_images(augmentation, tmp_path):
    benchmark, results = make_benchmark("classification", coordinates=True), {}
    for tta_mirror in (False, True):
        experiment = make_experiment(network={**NETWORK, "tta_mirror": tta_mirror}, augmentation=augmentation)
        (results[tta_mirror],) = train(experiment, benchmark, [7], tmp_path / str(tta_mirror), "cpu")
    one, both = results[False], results[True]
    assert [row["train_loss"] for row in one.history] == [row["train_loss"] for row in both.history]
    assert [row["val_loss"] for row in one.history] != [row["val_loss"] for row in both.history]
    trained = load_trained(tmp_path / "True" / "seed-7", "cpu")
    for split in SPLITS:
        prediction, target = predict_split(trained, benchmark, split)
        accuracy = float((prediction.argmax(dim=1) == target).float().mean())
        assert accuracy == pytest.approx(both.metrics[split]["accuracy"], abs=1e-6)


def test_new_graphs_need_coordinates(tmp_path):
    benchmark = make_benchmark("classification", coordinates=True)
    experiment = make_experiment(network={**NETWORK, "tta_mirror": True}, training={"epochs": 1})
    train(experiment, benchmark, [7], tmp_path, "cpu")
    trained, graphs = load_trained(tmp_path / "seed-7", "cpu"), benchmark.graphs
    bare = replace(graphs, nodes={"x": graphs.nodes["x"]})
    with pytest.raises(ValueError, match=r"^potential: expected values of nodes, as in small, got none; add them"):
        trained.outputs(bare)[0]


def test_the_field_is_dropped_once_the_weights_of_both_images_are_computed():
    benchmark = make_benchmark(coordinates=True)
    for augmentation, is_kept in (({"mirror": True}, False), ({"mirror": True, "distortion": 0.1}, True)):
        experiment = make_experiment(network=NETWORK, augmentation=augmentation)
        dataset = prepare(experiment, benchmark, CPU).store
        assert ("edge_field" in dataset.edges) == is_kept
        assert (dataset.mirrored is None) == is_kept


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_ensembles_with_mirrored_inference_agree_on_gpu_and_cpu():
    benchmark = make_benchmark("classification", coordinates=True)
    network = {**NETWORK, "ensemble_size": 2, "tta_mirror": True}
    experiment = make_experiment(network=network, training={"ema_decay": 0.9, "learning_rate": 1e-3})
    (here,), (there,) = (train(experiment, benchmark, [7], device=device) for device in ("cpu", "cuda"))
    for row, other in zip(here.history, there.history, strict=True):
        assert row["train_loss"] == pytest.approx(other["train_loss"], rel=1e-3)
        assert row["val_loss"] == pytest.approx(other["val_loss"], rel=1e-3)
