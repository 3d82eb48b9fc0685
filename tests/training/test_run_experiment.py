"""One call trains an experiment that was written in Python, and one loads its model."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import dgn
from dgn.data import benchmark_from_graphs
from dgn.training import trainer
from dgn.training.errors import DivergedError
from dgn.training.run import EpochReport
from tests.training.small import make_benchmark, make_experiment

EXPERIMENT = dgn.Experiment(
    name="mine",
    data=dgn.DataSettings(dataset="own", rwse_steps=2),
    network=dgn.NetworkSettings(hidden=8, num_layers=2, aggregators=("mean", "dx1")),
    training=dgn.TrainingSettings(epochs=2, batch_size=4, seeds=(1, 2)),
    augmentation=dgn.AugmentationSettings(reflection=True),
)


def own_graphs() -> list[Data]:
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    draw = torch.Generator().manual_seed(0)
    return [Data(x=torch.rand(3, 2, generator=draw), edge_index=path, y=float(index)) for index in range(12)]


def test_an_experiment_in_python_is_trained_and_its_model_loaded(tmp_path: Path) -> None:
    graphs, epochs = own_graphs(), []
    mine = benchmark_from_graphs(graphs, "regression")

    def on_epoch(report: EpochReport) -> None:
        epochs.append((report.seed, report.epoch))

    runs = dgn.train_experiment(EXPERIMENT, tmp_path / "run", mine, device="cpu", on_epoch=on_epoch)
    assert [run.seed for run in runs] == [1, 2]
    assert sorted(epochs) == [(1, 1), (1, 2), (2, 1), (2, 2)]
    model = dgn.load_model(tmp_path / "run" / "seed-2", "cpu")
    assert model.metrics == runs[1].metrics
    assert model.predict(graphs).shape == (12, 1)
    (tmp_path / "run" / "experiment.yaml").rename(tmp_path / "mine.yaml")
    assert dgn.load_experiment(tmp_path / "mine.yaml") == replace(EXPERIMENT, name="mine")


def test_finished_seeds_are_not_trained_again(tmp_path: Path) -> None:
    experiment, messages = make_experiment(training={"seeds": [1, 2]}), []
    first = dgn.train_experiment(experiment, tmp_path, make_benchmark(), seeds=[1], device="cpu")
    both = dgn.train_experiment(
        experiment, tmp_path, make_benchmark(), device="cpu", on_epoch=lambda report: messages.append(report.seed)
    )
    assert [run.seed for run in both] == [1, 2]
    assert both[0] == first[0]
    assert set(messages) == {2}
    with pytest.raises(
        ValueError, match=r"expected a new folder or one of the same experiment, got .* network\.hidden"
    ):
        dgn.train_experiment(make_experiment(network={"hidden": 9}), tmp_path, make_benchmark(), device="cpu")


def test_seeds_that_finished_before_a_failure_have_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = trainer.train

    def diverge(*args: Any, **kwargs: Any) -> None:
        raise DivergedError("loss", train(*args, **kwargs)[:1])

    monkeypatch.setattr(trainer, "train", diverge)
    with pytest.raises(DivergedError):
        dgn.train_experiment(make_experiment(), tmp_path, make_benchmark(), seeds=[1, 2], device="cpu")
    assert [path.parent.name for path in tmp_path.glob("seed-*/result.json")] == ["seed-1"]


def test_graphs_of_a_benchmark_are_loaded_by_name(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    experiment = dgn.load_experiment("digits/dx", ["training.epochs=1", "data.train_fraction=0.02"])
    (run,) = dgn.train_experiment(experiment, tmp_path, seeds=[5], device="cpu")
    assert run.experiment.data.dataset == "digits"
    assert run.metrics["test"]["accuracy"] > 0
