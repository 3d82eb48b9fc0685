"""Training on the nodes of one graph, with masks for training, validation and test."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.utils import grid

import dgn
from dgn.data import Benchmark, benchmark_from_graphs
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.model import predict_split
from dgn.training.trainer import train

SIDE = 12


def one_graph(objective: str = "node-classification", **changes: Tensor) -> Data:
    """A grid whose nodes are labelled by the half they lie in, or by their height; a tenth of them has no split."""
    edge_index, position = grid(SIDE, SIDE)
    generator = torch.Generator().manual_seed(0)
    part = torch.multinomial(torch.tensor([0.5, 0.2, 0.2, 0.1]), SIDE**2, replacement=True, generator=generator)
    y = (position[:, 0] >= SIDE / 2).long() if objective == "node-classification" else position[:, 1] / SIDE
    noise = torch.randn(SIDE**2, 2, generator=generator)
    masks = {name: part == index for index, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    return Data(**{"x": position / SIDE + 0.1 * noise, "edge_index": edge_index, "y": y, **masks, **changes})


def experiment(epochs: int, **network: object) -> Experiment:
    settings = {"hidden": 16, "num_layers": 2, "aggregators": ["mean", "dx1"], "readout": "nodes", **network}
    training = {"epochs": epochs, "learning_rate": 0.02, "batch_size": 1}
    return read_experiment({"name": "one", "data": {"dataset": "own"}, "network": settings, "training": training})


def weights(benchmark: Benchmark, out: Path) -> dict[str, Tensor]:
    dgn.train_experiment(experiment(3), out, benchmark, seeds=[1], device="cpu")
    return dict(dgn.load_model(out / "seed-1", "cpu").network.state_dict())


@pytest.mark.parametrize("objective", ["node-classification", "node-regression"])
def test_a_network_learns_the_nodes_of_one_graph(objective: str) -> None:
    benchmark = benchmark_from_graphs(one_graph(objective), objective)
    (result,) = train(experiment(80), benchmark, [0], device="cpu")
    if objective == "node-classification":
        assert result.metrics["test"]["accuracy"] > 0.9
    else:
        assert result.metrics["test"]["mae"] < 0.12  # 0.25 for the median of all nodes


def test_scores_are_those_of_the_masked_nodes(tmp_path: Path) -> None:
    data = one_graph()
    benchmark = benchmark_from_graphs(data, "node-classification", "accuracy")
    (run,) = dgn.train_experiment(experiment(2), tmp_path, benchmark, seeds=[1], device="cpu")
    model = dgn.load_model(tmp_path / "seed-1", "cpu")
    right = model.predict(data).argmax(dim=1) == data.y
    for split, mask in (("train", data.train_mask), ("val", data.val_mask), ("test", data.test_mask)):
        assert run.metrics[split]["accuracy"] == pytest.approx(float(right[mask].double().mean()))
        prediction, target = predict_split(model, benchmark, split)
        assert torch.equal(target, data.y[mask])
        assert torch.equal(prediction.argmax(dim=1) == target, right[mask])
    assert model.facts["nodes"] == {name: int(data[f"{name}_mask"].sum()) for name in ("train", "val", "test")}


def test_labels_outside_the_training_mask_change_no_weight(tmp_path: Path) -> None:
    data = one_graph()
    other = one_graph(y=torch.where(data.train_mask, data.y, 1 - data.y))
    first, second, third = (
        weights(benchmark_from_graphs(graph, "node-classification"), tmp_path / str(index))
        for index, graph in enumerate((data, other, one_graph(y=1 - data.y)))
    )
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert any(not torch.equal(first[name], third[name]) for name in first)


def test_the_nodes_of_one_graph_are_split_at_random_without_masks() -> None:
    data = one_graph()
    del data.train_mask, data.val_mask, data.test_mask
    split = benchmark_from_graphs(data, "node-classification").graphs.nodes["split"]
    assert split.bincount().tolist() == [116, 14, 14]


def test_a_saved_file_keeps_the_split_of_nodes(tmp_path: Path) -> None:
    graphs = benchmark_from_graphs(one_graph(), "node-classification").graphs
    for name in ("one.safetensors", "one.npz", "one.parquet"):
        graphs.save(tmp_path / name)
        loaded = dgn.data.load_benchmark("own", tmp_path / name)
        assert loaded.objective == "node-classification"
        assert torch.equal(loaded.graphs.nodes["split"], graphs.nodes["split"])
        assert "train_mask" not in loaded.graphs.nodes


def test_several_graphs_with_masks_are_trained_in_batches() -> None:
    benchmark = benchmark_from_graphs([one_graph() for _ in range(3)], "node-classification")
    (result,) = train(experiment(3), benchmark, [0], device="cpu")
    assert result.steps == 9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"train_mask": torch.ones(SIDE**2, 4, dtype=torch.bool)},
            r"train_mask: expected one boolean .*\[144, 4\].*\[:, 0\]",
        ),
        ({"val_mask": torch.ones(SIDE**2)}, r"val_mask: expected one boolean .* got torch.float32"),
        ({"val_mask": torch.ones(SIDE**2, dtype=torch.bool)}, r"train_mask: expected masks that do not overlap"),
        (
            {"test_mask": torch.zeros(SIDE**2, dtype=torch.bool)},
            r"split: expected nodes for training .* got \[0, 1, 3\]",
        ),
        ({"test_mask": None}, r"train_mask: expected train_mask, val_mask, test_mask, got train_mask, val_mask alone"),
    ],
)
def test_masks_that_are_no_split_are_refused(changes: dict[str, Tensor], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        benchmark_from_graphs(one_graph(**changes), "node-classification")


def test_a_fraction_of_the_training_nodes_is_refused() -> None:
    benchmark = benchmark_from_graphs(one_graph(), "node-classification")
    config = replace(experiment(1), data=replace(experiment(1).data, train_fraction=0.5))
    with pytest.raises(ValueError, match=r"data.train_fraction: expected 1 where nodes have a split"):
        train(config, benchmark, [0], device="cpu")
