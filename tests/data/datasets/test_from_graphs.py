"""A benchmark from arbitrary graphs: what is inferred from them, and what is refused."""

import pytest
import torch
from torch_geometric.data import Data

import dgn
from dgn.data import PackedGraphs, benchmark_from_graphs
from dgn.data.datasets.from_graphs import METRICS, load_packed_benchmark
from dgn.training.experiment import read_experiment
from dgn.training.load import load_graphs
from dgn.training.objectives import OBJECTIVES, make_objective
from dgn.training.shared_data import prepare
from dgn.training.trainer import train

EDGE_INDEX = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])


def graphs(count=20, y=None, **values):
    generator = torch.Generator().manual_seed(0)
    tensors = {"x": torch.rand(3, 4, generator=generator), **values}
    target = (lambda _: torch.rand(1, generator=generator)) if y is None else y
    return [Data(edge_index=EDGE_INDEX, y=target(index), **tensors) for index in range(count)]


def test_floats_are_continuous_and_integers_are_categories():
    plain = benchmark_from_graphs(graphs(), "regression")
    assert (plain.node_categories, plain.edge_categories, plain.num_targets, plain.metric) == (None, None, 1, "mae")
    x, bonds = torch.tensor([[0, 5], [1, 2], [0, 0]]), torch.tensor([0, 0, 2, 2])
    coded = benchmark_from_graphs(graphs(x=x, edge_attr=bonds, y=lambda _: torch.rand(1, 3)), "regression")
    assert (coded.node_categories, coded.edge_categories, coded.num_targets) == ((2, 6), (3,), 3)


def test_one_dimensional_features_become_columns():
    packed = benchmark_from_graphs(
        graphs(x=torch.rand(3), edge_attr=torch.rand(4), edge_field=torch.rand(4)), "regression"
    ).graphs
    assert {tuple(values.shape[1:]) for values in (packed.nodes["x"], *packed.edges.values())} == {(1,)}
    assert set(packed.edges) == {"edge_attr", "edge_field"}


@pytest.mark.parametrize(
    ("objective", "y", "num_targets", "metric"),
    [
        ("classification", lambda index: index % 3, 3, "accuracy"),
        ("node-classification", lambda _: torch.tensor([0, 3, 1]), 4, "balanced-accuracy"),
        ("multi-label", lambda index: torch.tensor([[1.0, torch.nan, index % 2]]), 3, "roc-auc"),
        ("classification", lambda _: -1, 1, "accuracy"),  # all missing
    ],
)
def test_the_number_of_outputs_is_inferred_from_the_targets(objective, y, num_targets, metric):
    benchmark = benchmark_from_graphs(graphs(y=y), objective)
    assert (benchmark.num_targets, benchmark.metric, benchmark.objective) == (num_targets, metric, objective)


def test_a_random_split_is_reproducible_and_a_given_split_is_used():
    drawn, again = (benchmark_from_graphs(graphs(), "regression").graphs.graphs["split"] for _ in range(2))
    assert torch.equal(drawn, again)
    assert drawn.bincount().tolist() == [16, 2, 2]
    split = torch.tensor([2, 1] + [0] * 18)
    packed = PackedGraphs.from_data(graphs()).with_values(graphs={"split": split})
    assert torch.equal(benchmark_from_graphs(packed, "regression").graphs.graphs["split"], split)


@pytest.mark.parametrize(
    ("changes", "objective", "message"),
    [
        ({}, "classification", r"y: expected integer labels for classification, got 0\.\d+; for continuous"),
        ({"y": lambda index: index}, "multi-label", r"y: expected 0, 1 or NaN for multi-label, got 19"),
        ({}, "node-classification", r"y: expected a tensor with one row per node, got PackedGraphs"),
        (
            {"x": torch.tensor([-1, 0, 1])},
            "regression",
            r"x: expected categories from 0, got -1; give continuous features as float",
        ),
        (
            {"y": lambda index: torch.eye(3)[[index % 3]]},
            "classification",
            r"y: expected one class index per row for classification, got shape \[20, 3\]; give y.argmax",
        ),
        (
            {"edge_field": torch.full((4, 1), torch.nan)},
            "regression",
            r"field: expected finite numbers, got NaN or infinity; impute",
        ),
        (
            {"split": torch.tensor([[0]])},
            "regression",
            r"split: expected graphs for training .* got \[0\] for 20 graphs",
        ),
        ({"count": 2}, "regression", r"split: expected graphs for training \(0\), .* got \[1, 2\] for 2 graphs"),
        ({"field": torch.ones(4, 1)}, "regression", r"field: expected edge_field, .* was renamed to edge_field"),
        ({"potential": torch.ones(3, 1)}, "regression", "which was renamed to node_potential; rename it"),
        ({}, "regresion", r"objective: expected one of .* did you mean 'regression'"),
    ],
)
def test_invalid_features_targets_and_splits_are_refused(changes, objective, message):
    with pytest.raises(ValueError, match=message):
        benchmark_from_graphs(graphs(**changes), objective)


def test_a_saved_file_is_trained_on(tmp_path):
    file = tmp_path / "mine.safetensors"
    benchmark_from_graphs(graphs(), "regression").graphs.save(file)
    network = {"hidden": 8, "num_layers": 1, "aggregators": ["mean", "dx1"]}
    config = {"name": "mine", "data": {"dataset": "own", "path": str(file)}, "network": network}
    experiment = read_experiment({**config, "training": {"metric": "mae", "epochs": 2}})
    (result,) = train(experiment, load_graphs(experiment), seeds=[1], device="cpu")
    assert set(result.metrics) == {"train", "val", "test"}
    assert result.history[-1]["mae"] > 0


@pytest.mark.parametrize("saved", [False, True], ids=["in memory", "from a file"])
def test_the_field_of_the_graphs_is_what_is_trained_on(saved, tmp_path):
    field = torch.tensor([[2.0], [0.0], [-1.0], [0.5]])
    benchmark, data = benchmark_from_graphs(graphs(edge_field=field), "regression"), {"dataset": "own"}
    if saved:
        data["path"] = str(tmp_path / "mine.safetensors")
        benchmark.graphs.save(data["path"])
    network = {"hidden": 8, "num_layers": 1, "aggregators": ["mean", "dx1-signed"]}
    experiment = read_experiment({"name": "mine", "data": data, "network": network})
    benchmark = load_graphs(experiment) if saved else benchmark
    assert torch.equal(benchmark.graphs.edges["edge_field"], field.repeat(20, 1))
    weights = prepare(experiment, benchmark, torch.device("cpu")).store.weights
    torch.testing.assert_close(weights.self, dgn.derivative(field.repeat(20, 1), benchmark.graphs.graph).self_weight)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"network": {"aggregators": ["dx2"]}}, r"field: expected 2 directions of each edge, as in own, got 1"),
        (
            {"network": {"readout": "directional"}},
            r"potential: expected .* got graphs with a field alone",
        ),
        (
            {"augmentation": {"resample": True}},
            r"augmentation.resample: expected eigenvectors .* field that came with the",
        ),
    ],
)
def test_settings_that_need_more_than_a_field_are_refused(settings, message):
    network = {"hidden": 8, "num_layers": 1, "aggregators": ["mean", "dx1"], **settings.get("network", {})}
    config = {"name": "mine", "data": {"dataset": "own"}, "training": {"epochs": 1}, **settings, "network": network}
    benchmark = benchmark_from_graphs(graphs(edge_field=torch.ones(4, 1), gap=torch.ones(3, 1)), "regression")
    with pytest.raises(ValueError, match=message):
        train(read_experiment(config), benchmark, seeds=[1], device="cpu")


@pytest.mark.parametrize(
    ("objective", "y", "readout", "expected"),
    [
        ("node-classification", lambda _: torch.tensor([0, 1, 1]), "mean", "nodes for node-classification, got mean"),
        ("classification", lambda index: index % 2, "nodes", "mean, sum .* for classification, got nodes"),
    ],
)
def test_a_readout_that_does_not_fit_the_targets_is_refused(objective, y, readout, expected):
    network = {"hidden": 8, "num_layers": 1, "aggregators": ["mean"], "readout": readout}
    experiment = read_experiment({"name": "mine", "data": {"dataset": "own"}, "network": network})
    with pytest.raises(ValueError, match=f"network.readout: expected {expected}"):
        train(experiment, benchmark_from_graphs(graphs(y=y), objective), seeds=[1], device="cpu")


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "parquet"])
def test_files_of_every_format_keep_the_objective(suffix, tmp_path):
    if suffix == "parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is optional")
    mine = benchmark_from_graphs(graphs(), "regression", seed=3)
    mine.graphs.save(tmp_path / f"mine.{suffix}")
    again = load_packed_benchmark(tmp_path / f"mine.{suffix}")
    assert (again.objective, again.metric, again.num_targets) == ("regression", "mae", mine.num_targets)
    assert again.node_categories == mine.node_categories
    assert torch.equal(again.graphs.graphs["split"], mine.graphs.graphs["split"])
    assert torch.equal(again.graphs.nodes["x"], mine.graphs.nodes["x"])
    assert again.graphs.graph.edge_index.tolist() == mine.graphs.graph.edge_index.tolist()


def test_files_without_an_objective_or_of_another_format_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"data\.path: expected the file of your graphs, got none"):
        load_packed_benchmark(None)
    PackedGraphs.from_data(graphs()).save(tmp_path / "bare.safetensors")
    with pytest.raises(ValueError, match=r"bare.safetensors: expected a file with an objective, got one without"):
        load_packed_benchmark(tmp_path / "bare.safetensors")
    (tmp_path / "mine.pt").touch()
    for name, description in (("mine.pt", ".pt"), (".", "a folder")):
        with pytest.raises(
            ValueError,
            match=rf"expected a file of packed graphs, .*, got {description}; dgn.data.benchmark_from_graphs",
        ):
            load_packed_benchmark(tmp_path / name)


def test_default_metrics_are_those_of_the_objectives():
    assert {name: make_objective(name).metric_name for name in OBJECTIVES} == METRICS


def test_booleans_are_labels():
    benchmark = benchmark_from_graphs(graphs(y=lambda index: torch.tensor([index % 2 == 0])), objective="multi-label")
    assert benchmark.num_targets == 1
