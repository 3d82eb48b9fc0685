"""Numbers as targets of nodes, from graphs to a model that predicts: on transport, the sign of the wind decides."""

import pytest
import torch

import dgn
from dgn.data import benchmark_from_graphs
from dgn.data.datasets.transport import generate_transport
from dgn.training.objectives import make_objective


@pytest.fixture(scope="module")
def benchmark():
    return benchmark_from_graphs(generate_transport((6, 2, 2), 2, 1, spacing=0.12, seed=1), "node-regression")


def experiment(*aggregators):
    return dgn.Experiment(
        name="transport",
        data=dgn.DataSettings(dataset="own"),
        network=dgn.NetworkSettings(hidden=24, num_layers=3, aggregators=aggregators, readout="nodes"),
        training=dgn.TrainingSettings(epochs=20, batch_size=4, learning_rate=0.01, schedule="cosine", seeds=(0,)),
    )


@pytest.mark.slow
def test_the_sign_of_the_wind_decides(benchmark, tmp_path):
    scores = {}
    for name, aggregators in {"plain": ("mean", "max", "min"), "wind": ("mean", "dx1-signed", "dx2-signed")}.items():
        (run,) = dgn.train_experiment(experiment(*aggregators), tmp_path / name, benchmark, device="cpu")
        scores[name] = run.metrics["test"]["mae"]
    unchanged = float(
        benchmark.graphs.select((benchmark.graphs.graphs["split"] == 2).nonzero()[:, 0]).nodes["y"].abs().mean()
    )
    assert scores["wind"] < 0.8 * scores["plain"]
    assert scores["wind"] < 0.85 * unchanged
    model = dgn.load_model(tmp_path / "wind" / "seed-0")
    prediction = model.predict(benchmark.graphs)
    assert prediction.shape == (benchmark.graphs.num_nodes, 1)
    test = benchmark.graphs.graphs["split"][benchmark.graphs.graph.batch] == 2
    error = (prediction - benchmark.graphs.nodes["y"])[test].abs().mean()
    assert float(error) == pytest.approx(scores["wind"], rel=1e-4)


def test_missing_targets_of_nodes_do_not_count():
    objective = make_objective("node-regression")
    target = torch.tensor([[1.0], [torch.nan]])
    assert objective.is_scored(target)
    assert not objective.is_scored(target[1:])
    assert [float(term) for term in objective.loss(torch.zeros(2, 1), target, torch.ones(2))] == [1.0, 1.0]
