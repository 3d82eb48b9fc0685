"""Predictions of networks from run folders have the scores of the run, on splits and on new graphs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from dgn.data.benchmark import load_benchmark
from dgn.data.datasets.from_graphs import benchmark_from_graphs
from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import with_encodings
from dgn.training.experiment import load_experiment
from dgn.training.load import load_graphs
from dgn.training.model import load_trained, predict_split
from dgn.training.objectives import make_objective
from dgn.training.shared_data import SPLITS
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("regression", {}),
    "best-with-ema": ("multi-label", {"training": {"ema_decay": 0.9, "checkpoint": "best"}}),
    "nodes": ("node-classification", {"network": {"readout": "nodes"}}),
    "scaled": ("classification", {"network": {"scalers": ["identity", "amplification"]}}),
    "ensemble": ("multi-label", {"network": {"ensemble_size": 3}, "training": {"ema_decay": 0.9}}),
    "ensemble-of-nodes": ("node-classification", {"network": {"readout": "nodes", "ensemble_size": 2}}),
    "structure": (
        "regression",
        {"data": {"rwse_steps": 3, "ring_sizes": [3, 5]}, "network": {"readout": "directional"}},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_predictions_have_the_scores_of_the_run(case: str, tmp_path: Path) -> None:
    objective, changes = CASES[case]
    experiment = make_experiment(**changes)
    benchmark = with_encodings(make_benchmark(objective), experiment.data.rwse_steps, experiment.data.ring_sizes)
    (result,) = train(experiment, benchmark, [7], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-7", "cpu")
    assert trained.experiment == experiment
    assert trained.metrics == result.metrics
    assert not trained.network.training
    scored = make_objective(objective, benchmark.metric)
    split = benchmark.graphs.graphs["split"]
    for number, name in enumerate(SPLITS):
        prediction, target = predict_split(trained, benchmark, name)
        values = benchmark.graphs.nodes if "y" in benchmark.graphs.nodes else benchmark.graphs.graphs
        rows = split == number if values is benchmark.graphs.graphs else split[benchmark.graphs.graph.batch] == number
        expected = values["y"][rows]
        assert target.shape == (expected.shape if "class" in objective else prediction.shape)
        torch.testing.assert_close(target.view_as(expected), expected, equal_nan=True)
        metrics, metric = scored.metrics(prediction, target, [len(target)]), benchmark.metric
        assert metrics[metric] == pytest.approx(result.metrics[name][metric], abs=1e-6)


NEW_GRAPHS: dict[str, tuple[dict[str, Any], bool]] = {
    "eigenvectors": ({"data": {"normalization": "sym"}}, False),
    "more-eigenvectors": ({"network": {"aggregators": ["mean", "dx2-group"], "num_eigenvector_features": 2}}, False),
    "none": ({"network": {"aggregators": ["mean", "max"]}}, False),
    "edge-types": (
        {"data": {"rwse_steps": 3, "ring_sizes": [3, 5]}, "network": {"message": "complex", "edge_dim": 4}},
        False,
    ),
    "counts": ({"data": {"ring_sizes": [3, 5]}, "network": {"message": "complex", "edge_dim": 4}}, True),
    "walks": ({"data": {"rwse_steps": 4}, "network": {"aggregators": ["mean", "dx2"]}}, True),
}


@pytest.mark.parametrize("case", NEW_GRAPHS)
def test_new_graphs_get_the_inputs_of_the_training_graphs(case: str, tmp_path: Path) -> None:
    changes, numbers = NEW_GRAPHS[case]
    experiment, original = make_experiment(**changes), make_benchmark(numbers=numbers)
    data, graphs, k = experiment.data, original.graphs, experiment.num_directions
    raw = replace(graphs, nodes={"x": graphs.nodes["x"]}, edges={"edge_attr": graphs.edges["edge_attr"]})
    benchmark = replace(original, graphs=add_directions(raw, k, data.normalization) if k else raw)
    benchmark = with_encodings(benchmark, data.rwse_steps, data.ring_sizes)
    (result,) = train(experiment, benchmark, [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", "cpu")
    prediction, target = predict_split(trained, benchmark, "test")
    assert float((prediction - target).abs().mean()) == pytest.approx(result.metrics["test"]["mae"], abs=1e-6)
    others = (raw.graphs["split"] == 2).nonzero()[:, 0].flip(0)
    bare = replace(raw.select(others), graphs={})
    torch.testing.assert_close(trained.outputs(bare)[0].flip(0), prediction)
    if data.normalization is None:  # directions that they have already are used
        torch.testing.assert_close(trained.outputs(add_directions(bare, 3))[0].flip(0), prediction)
    for empty in (bare.select(others[:0]), []):
        assert trained.outputs(empty)[0].shape == (0, 1)


def test_a_field_of_training_graphs_is_required_of_new_ones(tmp_path: Path) -> None:
    benchmark = make_benchmark(coordinates=True)
    train(make_experiment(), benchmark, [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", "cpu")
    assert trained.outputs(benchmark.graphs)[0].shape == (40, 1)
    bare = replace(benchmark.graphs, edges={})
    with pytest.raises(ValueError, match="field: expected 1 directions of each edge, as in small, got 0"):
        trained.outputs(bare)[0]
    bare = benchmark.graphs
    for nodes, got in (
        ({}, "nothing"),
        ({"x": torch.rand(bare.num_nodes, 2)}, "numbers in 2 columns"),
        ({"x": torch.zeros(bare.num_nodes, 3, dtype=torch.long)}, "categories in 3 columns"),
    ):
        with pytest.raises(ValueError, match=f"x: expected categories in 1 columns, as in small, got {got}"):
            trained.outputs(replace(bare, nodes=nodes))[0]


def test_pyg_data_are_accepted(tmp_path: Path) -> None:
    ends = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graphs = [Data(x=torch.rand(3), edge_index=ends, y=float(number)) for number in range(10)]
    benchmark = benchmark_from_graphs(graphs, "regression")
    train(make_experiment(data={"dataset": "own"}), benchmark, [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", "cpu")
    prediction, _ = predict_split(trained, benchmark, "train")
    torch.testing.assert_close(trained.outputs(graphs)[0][benchmark.graphs.graphs["split"] == 0], prediction)
    with pytest.raises(ValueError, match="graph 0: expected one graph, got a Batch of 5"):
        trained.outputs(DataLoader(graphs, batch_size=5))[0]


def test_edge_features_that_a_network_reads_are_required(tmp_path: Path) -> None:
    benchmark = make_benchmark()
    train(make_experiment(network={"message": "complex", "edge_dim": 4}), benchmark, [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", "cpu")
    with pytest.raises(ValueError, match="edge_attr: expected categories in 1 columns, as in small, got nothing"):
        trained.outputs(replace(benchmark.graphs, edges={}))[0]


@pytest.mark.parametrize("edge_dim", [4, None])
def test_edge_types_of_other_training_graphs_are_refused(edge_dim: int | None, tmp_path: Path) -> None:
    """Edge types are numbered by their frequency in the training graphs, and the weights follow that order."""
    benchmark = make_benchmark()
    split = benchmark.graphs.graphs["split"]
    other = replace(benchmark, graphs=benchmark.graphs.with_values(graphs={"split": split.flip(0)}))
    experiment = make_experiment(
        data={"ring_sizes": [3, 5]}, network={"message": "complex" if edge_dim else "simple", "edge_dim": edge_dim}
    )
    train(experiment, with_encodings(benchmark, 0, (3, 5)), [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", "cpu")
    with pytest.raises(
        ValueError, match=r"data: expected graphs with random_walk 0 and rings \[3, 5\], edge types \w+"
    ):
        trained.predict(with_encodings(other, 0, (3, 5)).graphs)
    with pytest.raises(ValueError, match=r"data: expected graphs with .*, got random_walk 2"):
        trained.predict(with_encodings(benchmark, 2).graphs)


def test_the_train_split_has_the_fraction_that_was_trained_on(tmp_path: Path) -> None:
    experiment, benchmark = make_experiment(data={"train_fraction": 0.5}), make_benchmark()
    (result,) = train(experiment, benchmark, [0], tmp_path, "cpu")
    prediction, target = predict_split(load_trained(tmp_path / "seed-0", "cpu"), benchmark, "train")
    assert len(prediction) == 12
    assert float((prediction - target).abs().mean()) == pytest.approx(result.metrics["train"]["mae"], abs=1e-6)


def test_a_split_of_the_whole_dataset_has_the_scores_of_a_fraction_of_it(tmp_path: Path) -> None:
    experiment = load_experiment("digits/dx", ["training.epochs=1", "data.train_fraction=0.1"])
    (result,) = train(experiment, load_graphs(experiment), [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", "cpu")
    prediction, target = predict_split(trained, load_benchmark("digits"), "val")
    accuracy = float((prediction.argmax(dim=1) == target.flatten()).float().mean())
    assert accuracy == pytest.approx(result.metrics["val"]["accuracy"], abs=1e-6)


def test_unknown_splits_are_refused(tmp_path: Path) -> None:
    train(make_experiment(), make_benchmark(), [0], tmp_path, "cpu")
    with pytest.raises(ValueError, match="split: expected"):
        predict_split(load_trained(tmp_path / "seed-0", "cpu"), make_benchmark(), "validation")


def test_graphs_without_nodes_get_predictions_among_others(tmp_path: Path) -> None:
    benchmark = make_benchmark()
    train(make_experiment(), benchmark, [7], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-7", "cpu")
    one = benchmark.graphs.select(torch.tensor([0]))
    full = Data(x=one.nodes["x"], edge_index=one.edge_index.long(), edge_attr=one.edges["edge_attr"])
    empty = Data(x=full.x[:0], edge_index=full.edge_index[:, :0], edge_attr=full.edge_attr[:0], num_nodes=0)
    prediction = trained.outputs([empty, full])[0]
    assert prediction.isfinite().all()
    torch.testing.assert_close(prediction[1:], trained.outputs([full])[0])
    with pytest.raises(ValueError, match="graphs: expected at least one node, got 2 graphs without any; leave"):
        trained.outputs([empty, empty])[0]
