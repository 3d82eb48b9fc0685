"""Fine-tuning starts from the weights of another model, up to the head; frozen ones stay as they are."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark
from dgn.training.config import TrainingSettings
from dgn.training.experiment import Experiment, load_experiment
from dgn.training.finetune import read_initial
from dgn.training.load import add_inputs
from dgn.training.model import load_trained
from dgn.training.shared_data import prepare
from dgn.training.trainer import _make_replica, train
from tests.training.small import make_benchmark, make_experiment

NETWORK = {"message": "complex", "edge_dim": 4, "scalers": ["identity", "amplification"]}
DATA = {"rwse_steps": 2, "ring_sizes": [3, 5]}


def make(start: Path | None = None, **changes: Any) -> Experiment:
    training = {} if start is None else {"from": str(start)}
    return make_experiment(
        data=DATA,
        network={**NETWORK, **changes.pop("network", {})},
        training={**training, **changes.pop("training", {})},
    )


def other_benchmark(objective: str = "classification") -> Benchmark:
    """Other training graphs, with another scale of encodings, other edge types and degrees."""
    benchmark = make_benchmark(objective)
    split = benchmark.graphs.graphs["split"].flip(0)
    return replace(benchmark, graphs=benchmark.graphs.with_values(graphs={"split": split}))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model of a regression."""
    folder, experiment = tmp_path_factory.mktemp("source"), make()
    train(experiment, add_inputs(make_benchmark(), experiment), [1], folder, "cpu")
    return folder / "seed-1" / "model"


def weights(folder: Path) -> dict[str, Tensor]:
    return dict(load_trained(folder, "cpu").network.state_dict())


@pytest.mark.parametrize("settings", [{}, {"ema_decay": 0.9, "checkpoint": "best"}])
@pytest.mark.parametrize("freeze", [False, True])
def test_frozen_weights_and_statistics_stay_and_free_ones_change(
    freeze: bool, settings: dict[str, Any], source: Path, tmp_path: Path
) -> None:
    experiment = make(source, training={"freeze": freeze, **settings})
    (result,) = train(experiment, add_inputs(other_benchmark(), experiment), [2], tmp_path, "cpu")
    before, after = weights(source), weights(tmp_path / "seed-2")
    body = [name for name in before if not name.startswith("head") and before[name].is_floating_point()]
    changed = [name for name in body if not torch.equal(before[name], after[name])]
    fixed = {"structure.scale", "structure.offset", "edge_encoder.features"}
    assert set(changed) == (set() if freeze else set(body) - fixed)
    assert after["head.4.weight"].shape == (3, 2)
    assert result.parameters == sum(p.numel() for p in load_trained(tmp_path / "seed-2", "cpu").network.parameters())
    assert len({row["train_loss"] for row in result.history}) == 3  # the head learns


def test_training_starts_from_the_weights_scales_edge_types_and_degrees_of_the_source(source: Path) -> None:
    from dgn.training.devices import make_fabric

    experiment, fabric = make(source), make_fabric("cpu")
    shared = prepare(experiment, add_inputs(other_benchmark(), experiment), fabric.device)
    stored = read_initial(experiment)
    assert stored is not None
    for name, value in stored.signature.tensors().items():
        assert torch.equal(shared.signature.tensors()[name], value)
    assert shared.delta == stored.signature.delta
    network = _make_replica(3, experiment, shared, fabric).network
    for name, value in network.state_dict().items():
        is_head = name.startswith("head")
        assert is_head or torch.equal(value, stored.weights[0][name]), name


def test_a_model_that_was_fine_tuned_needs_its_source_no_more(source: Path, tmp_path: Path) -> None:
    experiment = make(source, training={"epochs": 1})
    train(experiment, add_inputs(other_benchmark(), experiment), [2], tmp_path / "run", "cpu")
    source.rename(tmp_path / "gone")
    try:
        assert load_trained(tmp_path / "run" / "seed-2", "cpu").predict(make_benchmark().graphs[0]).shape == (1, 3)
    finally:
        (tmp_path / "gone").rename(source)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": {"hidden": 9, "dropout": 0.5}}, r"expected the network .*, got others in network\.hidden; copy"),
        ({"network": {"aggregators": ["mean", "dx1", "av1"]}}, r"got others in network\.aggregators"),
    ],
)
def test_other_networks_are_refused(changes: dict[str, Any], message: str, source: Path) -> None:
    with pytest.raises(ValueError, match=rf"training\.from: .*{message}"):
        read_initial(make(source, **changes))


def test_other_encodings_and_features_are_refused(source: Path) -> None:
    experiment = make(source)
    changed = replace(experiment, data=replace(experiment.data, rwse_steps=3))
    with pytest.raises(ValueError, match=r"training\.from: .* got others in data\.rwse_steps"):
        read_initial(changed)
    wider = replace(other_benchmark(), node_categories=(6,))
    with pytest.raises(ValueError, match=r"training\.from: expected x with columns \(5,\), as in small, got \(6,\)"):
        train(experiment, add_inputs(wider, experiment), [2], device="cpu")
    with pytest.raises(ValueError, match=r"training\.freeze: expected a network to start from, got none"):
        TrainingSettings(freeze=True)


def test_the_setting_is_called_from_and_relative_to_its_file(source: Path, tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    text = "data: {dataset: zinc}\nnetwork: {hidden: 8}\ntraining: {from: %s}"
    for written, expected in (
        ("run/seed-1", str(tmp_path / "run" / "seed-1")),
        ("digits/dx-signed", "digits/dx-signed"),
    ):
        file.write_text(text % written)
        experiment = load_experiment(file)
        assert experiment.training.from_ == expected
        assert experiment.to_dict()["training"]["from"] == expected
    assert load_experiment("zinc/tuned", [f"training.from={source}"]).training.from_ == str(source)
    with pytest.raises(ValueError, match=r"did you mean training\.from"):
        load_experiment("zinc/tuned", ["network.from=x"])
