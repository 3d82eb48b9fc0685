"""Predictions on a batch with and without padding, and the scores of a split."""

import pytest
import torch

from dgn.aggregation import average_log_degree
from dgn.data.loader.device_dataset import DeviceDataset
from dgn.data.loader.static_batch import BatchShape
from dgn.training.build import build_network
from dgn.training.evaluate import Split, predict, target_of
from dgn.training.objectives import make_objective
from dgn.training.shared_data import prepare
from tests.training.small import make_benchmark, make_experiment

NONE = -1


def make_dataset(benchmark, network):
    where = "nodes" if "y" in benchmark.graphs.nodes else "graphs"
    names = {"nodes": ["x", "node_potential"], "edges": ["edge_field", "edge_attr"], "graphs": []}
    names[where].append("y")
    dataset = DeviceDataset(benchmark.graphs, names, "cpu")
    dataset.weights = network.plan.compute_weights(dataset.edges["edge_field"], dataset.graph)
    return dataset


@pytest.mark.parametrize("objective", ["regression", "node-classification"])
@pytest.mark.parametrize("virtual_node", [False, True])
def test_padding_changes_no_prediction_gradient_or_statistic(objective, virtual_node):
    benchmark = make_benchmark(objective)
    readout = "nodes" if objective.startswith("node") else "directional"
    settings = {
        "virtual_node": virtual_node,
        "num_eigenvector_features": 1,
        "readout": readout,
        "message": "complex",
        "edge_dim": 2,
    }
    delta = average_log_degree(benchmark.graphs.graph)
    torch.manual_seed(0)
    network = (
        build_network(make_experiment(network={**settings, "hidden": 16}).network, benchmark, delta).double().train()
    )
    dataset, index = make_dataset(benchmark, network), torch.tensor([[5, 0, NONE, 9, 3, NONE]])
    exact = dataset.smallest_shape(index)
    results = []
    for shape in (exact, BatchShape(6, exact.nodes + 5, exact.edges + 9)):
        network.load_state_dict({k: v.zero_() if "running" in k else v for k, v in network.state_dict().items()})
        network.zero_grad()
        (batch,) = dataset.gather(index, shape)
        batch = batch._replace(
            weights=type(batch.weights)(*(w.double() for w in batch.weights)),
            nodes={**batch.nodes, "node_potential": batch.nodes["node_potential"].double()},
            node_mask=batch.node_mask.double(),
        )
        target, real = target_of(batch)
        prediction = predict(network, batch)
        numerator, denominator = make_objective(objective).loss(prediction, target, real)
        (numerator / denominator).backward()
        grads = [parameter.grad for parameter in network.parameters()]
        statistics = [value for name, value in network.state_dict().items() if "running" in name]
        results.append([prediction[real > 0], denominator, *grads, *statistics])
    torch.testing.assert_close(*results, rtol=1e-6, atol=1e-8)  # size factors of a batch are in single precision


def test_a_batch_of_a_single_node_can_be_trained_on():
    benchmark = make_benchmark()
    network = build_network(make_experiment(network={"virtual_node": True}).network, benchmark, 1.0).train()
    dataset, alone = make_dataset(benchmark, network), torch.tensor([[3, NONE]])
    assert int(dataset.node_count[3]) == 1
    (batch,) = dataset.gather(alone, dataset.smallest_shape(alone))
    assert predict(network, batch)[0].isfinite().all()


@pytest.mark.parametrize("objective", ["regression", "classification", "multi-label", "node-classification"])
def test_scores_of_a_split_equal_those_of_its_joint_batch(objective):
    benchmark = make_benchmark(objective)
    readout = "nodes" if objective.startswith("node") else "mean"
    experiment = make_experiment(network={"readout": readout}, training={"batch_size": 3})
    shared = prepare(experiment, benchmark, torch.device("cpu"))
    network = build_network(experiment.network, benchmark, shared.delta).eval()
    split = shared.splits["val"]
    assert len(split.batches) == 3
    for index, row in enumerate(split.batches.buffer):
        split.step(network, row, torch.tensor([index]))
    scores = split.scores()

    chosen = benchmark.graphs.select((benchmark.graphs.graphs["split"] == 1).nonzero()[:, 0])
    with torch.no_grad():
        prediction = network(chosen.nodes["x"], chosen.graph, edge_field=chosen.edges["edge_field"])
    target = chosen.nodes["y"] if objective.startswith("node") else chosen.graphs["y"]
    expected = shared.objective.metric(prediction, target)
    assert scores.metrics[shared.objective.metric_name] == pytest.approx(expected, abs=1e-6)
    if objective != "node-classification":  # its class weights depend on the batch
        numerator, denominator = shared.objective.loss(prediction, target, torch.ones(len(target)))
        assert scores.loss == pytest.approx(float(numerator / denominator), rel=1e-5)


def test_a_fork_has_its_own_predictions():
    split = prepare(make_experiment(), make_benchmark(), torch.device("cpu")).splits["test"]
    twin = split.fork()
    twin.prediction += 1
    twin.terms += 1
    assert isinstance(twin, Split)
    assert not split.prediction.any()
    assert not split.terms.any()
    assert twin.batches is split.batches
