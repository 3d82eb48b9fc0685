"""Networks read again from their run folders say what they said when they were scored."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from dgn.data.datasets.from_graphs import benchmark_from_graphs
from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import with_encodings
from dgn.training.experiment import load_experiment
from dgn.training.inference import load_trained, predict_graphs, predict_split
from dgn.training.load import load_graphs
from dgn.training.objectives import make_objective
from dgn.training.shared_data import SPLITS
from dgn.training.trainer import train
from tests.training.small import make_benchmark, make_experiment

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "plain": ("regression", {}),
    "best-of-averaged": ("multi-label", {"training": {"ema_decay": 0.9, "checkpoint": "best"}}),
    "nodes": ("node-classification", {"network": {"readout": "nodes"}}),
    "scaled": ("classification", {"network": {"scalers": ["identity", "amplification"]}}),
    "ensemble_size": ("multi-label", {"network": {"ensemble_size": 3}, "training": {"ema_decay": 0.9}}),
    "branches-of-nodes": ("node-classification", {"network": {"readout": "nodes", "ensemble_size": 2}}),
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
    trained = load_trained(tmp_path / "seed-7", benchmark)
    assert trained.experiment == experiment
    assert trained.metrics == result.metrics
    assert not trained.network.training
    scored = make_objective(objective, benchmark.metric)
    split = benchmark.graphs.graphs["split"]
    for number, part in enumerate(SPLITS):
        said, truth = predict_split(trained, part, "cpu")
        place = benchmark.graphs.nodes if "y" in benchmark.graphs.nodes else benchmark.graphs.graphs
        rows = split == number if place is benchmark.graphs.graphs else split[benchmark.graphs.graph.batch] == number
        wanted = place["y"][rows]
        assert truth.shape == (wanted.shape if "class" in objective else said.shape)
        torch.testing.assert_close(truth.view_as(wanted), wanted, equal_nan=True)
        found, name = scored.metrics(said, truth, [len(truth)]), benchmark.metric
        assert found[name] == pytest.approx(result.metrics[part][name], abs=1e-6)


GIVEN: dict[str, tuple[dict[str, Any], bool]] = {
    "eigenvectors": ({"data": {"normalization": "sym"}}, False),
    "more-eigenvectors": ({"network": {"aggregators": ["mean", "dx2-group"], "num_eigenvector_features": 2}}, False),
    "none": ({"network": {"aggregators": ["mean", "max"]}}, False),
    "kinds": (
        {"data": {"rwse_steps": 3, "ring_sizes": [3, 5]}, "network": {"message": "complex", "edge_dim": 4}},
        False,
    ),
    "counts": ({"data": {"ring_sizes": [3, 5]}, "network": {"message": "complex", "edge_dim": 4}}, True),
    "walks": ({"data": {"rwse_steps": 4}, "network": {"aggregators": ["mean", "dx2"]}}, True),
}


@pytest.mark.parametrize("case", GIVEN)
def test_other_graphs_get_what_those_of_the_training_had(case: str, tmp_path: Path) -> None:
    changes, numbers = GIVEN[case]
    experiment, known = make_experiment(**changes), make_benchmark(numbers=numbers)
    data, graphs, k = experiment.data, known.graphs, experiment.num_directions
    raw = replace(graphs, nodes={"x": graphs.nodes["x"]}, edges={"edge_attr": graphs.edges["edge_attr"]})
    benchmark = replace(known, graphs=add_directions(raw, k, data.normalization) if k else raw)
    benchmark = with_encodings(benchmark, data.random_walk, data.rings)
    (result,) = train(experiment, benchmark, [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", benchmark)
    said, truth = predict_split(trained, "test", "cpu")
    assert float((said - truth).abs().mean()) == pytest.approx(result.metrics["test"]["mae"], abs=1e-6)
    others = (raw.graphs["split"] == 2).nonzero()[:, 0].flip(0)
    bare = replace(raw.select(others), graphs={})
    torch.testing.assert_close(predict_graphs(trained, bare, "cpu").flip(0), said)
    if data.normalization is None:  # what they have already is not what a network reads, if that comes from elsewhere
        torch.testing.assert_close(predict_graphs(trained, add_directions(bare, 3), "cpu").flip(0), said)
    for nothing in (bare.select(others[:0]), []):
        assert predict_graphs(trained, nothing, "cpu").shape == (0, 1)


def test_graphs_whose_field_is_given_must_have_one(tmp_path: Path) -> None:
    benchmark = make_benchmark(coordinates=True)
    train(make_experiment(), benchmark, [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", benchmark)
    assert predict_graphs(trained, benchmark.graphs, "cpu").shape == (40, 1)
    bare = replace(benchmark.graphs, edges={})
    with pytest.raises(ValueError, match="field: expected 1 directions of each edge, as small has, got 0"):
        predict_graphs(trained, bare, "cpu")
    bare = benchmark.graphs
    for nodes, came in (
        ({}, "nothing"),
        ({"x": torch.rand(bare.num_nodes, 2)}, "numbers in 2 columns"),
        ({"x": torch.zeros(bare.num_nodes, 3, dtype=torch.long)}, "categories in 3 columns"),
    ):
        with pytest.raises(ValueError, match=f"x: expected categories in 1 columns, as small has, got {came}"):
            predict_graphs(trained, replace(bare, nodes=nodes), "cpu")


def test_data_of_pyg_are_graphs_too(tmp_path: Path) -> None:
    ends = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    given = [Data(x=torch.rand(3), edge_index=ends, y=float(number)) for number in range(10)]
    benchmark = benchmark_from_graphs(given, "regression")
    train(make_experiment(data={"dataset": "own"}), benchmark, [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", benchmark)
    said, _ = predict_split(trained, "train", "cpu")
    torch.testing.assert_close(predict_graphs(trained, given, "cpu")[benchmark.graphs.graphs["split"] == 0], said)
    with pytest.raises(ValueError, match="graph 0: expected one graph, got a Batch of 5"):
        predict_graphs(trained, DataLoader(given, batch_size=5), "cpu")


def test_bonds_that_a_network_reads_must_be_there(tmp_path: Path) -> None:
    benchmark = make_benchmark()
    train(make_experiment(network={"message": "complex", "edge_dim": 4}), benchmark, [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0", benchmark)
    with pytest.raises(ValueError, match="edge_attr: expected categories in 1 columns, as small has, got nothing"):
        predict_graphs(trained, replace(benchmark.graphs, edges={}), "cpu")


@pytest.mark.parametrize("branches", [1, 2])
def test_kinds_of_edges_are_those_of_the_training(branches: int, tmp_path: Path) -> None:
    """Edges are numbered by how frequent their kinds are among the training graphs, and the weights follow that."""
    known = make_benchmark()
    split = known.graphs.graphs["split"]
    other = replace(known, graphs=known.graphs.with_values(graphs={"split": split.flip(0)}))
    network = {"message": "complex", "edge_dim": 4, "ensemble_size": branches}
    experiment = make_experiment(data={"ring_sizes": [3, 5]}, network=network)
    train(experiment, with_encodings(known, 0, (3, 5)), [0], tmp_path, "cpu")
    with pytest.raises(ValueError, match=r"got others, their (networks\.0\.)?(structure|edge_encoder)\.\w+ differs"):
        load_trained(tmp_path / "seed-0", with_encodings(other, 0, (3, 5)))


def test_a_part_of_the_training_graphs_is_scored_alone(tmp_path: Path) -> None:
    experiment, benchmark = make_experiment(data={"train_fraction": 0.5}), make_benchmark()
    (result,) = train(experiment, benchmark, [0], tmp_path, "cpu")
    said, truth = predict_split(load_trained(tmp_path / "seed-0", benchmark), "train", "cpu")
    assert len(said) == 12
    assert float((said - truth).abs().mean()) == pytest.approx(result.metrics["train"]["mae"], abs=1e-6)


def test_graphs_are_loaded_from_where_they_were(tmp_path: Path) -> None:
    experiment = load_experiment("digits/dx", ["training.epochs=1", "data.train_fraction=0.1"])
    (result,) = train(experiment, load_graphs(experiment), [0], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-0")
    said, truth = predict_split(trained, "val", "cpu")
    accuracy = float((said.argmax(dim=1) == truth.flatten()).float().mean())
    assert accuracy == pytest.approx(result.metrics["val"]["accuracy"], abs=1e-6)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"expected the folder of a finished seed.*model\.safetensors"):
        load_trained(tmp_path)
    train(make_experiment(), make_benchmark(), [0], tmp_path, "cpu")
    with pytest.raises(ValueError, match="expected the graphs of zinc that it was trained with, got others"):
        load_trained(tmp_path / "seed-0", make_benchmark("classification"))
    with pytest.raises(ValueError, match="expected graphs with random_walk 0"):
        load_trained(tmp_path / "seed-0", with_encodings(make_benchmark(), 2))
    with pytest.raises(TypeError, match=r"data: expected a place, or a Benchmark .*, got PackedGraphs"):
        load_trained(tmp_path / "seed-0", make_benchmark().graphs)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="part: expected"):
        predict_split(load_trained(tmp_path / "seed-0", make_benchmark()), "validation", "cpu")
    with pytest.raises(FileNotFoundError, match="zinc: expected one of"):
        load_trained(tmp_path / "seed-0", tmp_path)


def test_graphs_without_nodes_are_answered_beside_others(tmp_path: Path) -> None:
    benchmark = make_benchmark()
    train(make_experiment(), benchmark, [7], tmp_path, "cpu")
    trained = load_trained(tmp_path / "seed-7", benchmark)
    one = benchmark.graphs.select(torch.tensor([0]))
    full = Data(x=one.nodes["x"], edge_index=one.edge_index.long(), edge_attr=one.edges["edge_attr"])
    nobody = Data(x=full.x[:0], edge_index=full.edge_index[:, :0], edge_attr=full.edge_attr[:0], num_nodes=0)
    said = predict_graphs(trained, [nobody, full], "cpu")
    assert said.isfinite().all()
    torch.testing.assert_close(said[1:], predict_graphs(trained, [full], "cpu"))
    with pytest.raises(ValueError, match="graphs: expected at least one node, got 2 graphs without any; leave"):
        predict_graphs(trained, [nobody, nobody], "cpu")
