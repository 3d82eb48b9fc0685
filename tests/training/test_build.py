"""Networks of experiments: encoders that fit the data, published sizes."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from dgn.data import PackedGraphs
from dgn.data.benchmark import load_benchmark
from dgn.nn import CategoryEncoder
from dgn.training.build import Inputs, build_for_inputs, build_network, count_parameters, inputs_for, known_inputs
from dgn.training.config import NetworkSettings
from dgn.training.experiment import experiment_names, load_experiment

#: Networks that the paper itself made larger or smaller than its budget of 100,000.
OTHER_BUDGET = {"zinc/simple/mean", "pattern/simple/mean", "pattern/complex/mean"}
OTHER_BUDGET |= {"molhiv/simple/mean", "molhiv/simple/mean-dx1-dx2", "molhiv/simple/mean-av1-av2"}
OTHER_BUDGET |= {"molhiv/simple/mean-dx1-av1"}
OTHER_BUDGET |= {"cifar10/tuned-no-edges"}  # whose width is not the paper's, but found by a search


# Those beyond the paper have budgets of their own: tests/tuning/test_ablation.py.
@pytest.mark.parametrize("name", [name for name in experiment_names() if "/plus" not in name])
def test_every_shipped_experiment_builds_with_its_number_of_parameters(name: str) -> None:
    experiment = load_experiment(name)
    with torch.device("meta"):
        network = build_for_inputs(experiment.network, inputs_for(experiment.data), delta=1.0)
    count, published = count_parameters(network), experiment.published
    if published is not None and published.parameters is not None and "network.hidden" not in published.assumed:
        assert count == published.parameters
    elif experiment.data.dataset == "molpcba":
        assert 6_500_000 < count < 8_000_000
    elif name in OTHER_BUDGET:
        assert 75_000 < count < 125_000
    else:
        budget = 30_000 if experiment.data.dataset == "digits" else 100_000
        assert abs(count / budget - 1) < 0.15


def benchmark(x: torch.Tensor, edge_attr: torch.Tensor | None, **sizes: Any) -> Any:
    """Two joined nodes with features, and the facts of a benchmark about them."""
    graphs = PackedGraphs.pack([(torch.tensor([[0, 1], [1, 0]]), 2)]).with_values(
        nodes={"x": x}, edges={} if edge_attr is None else {"edge_attr": edge_attr}
    )
    return SimpleNamespace(
        graphs=graphs,
        **{"num_targets": 3, "node_categories": None, "edge_categories": None, "structure": None} | sizes,
    )


def test_categories_are_embedded_and_numbers_mapped() -> None:
    settings = NetworkSettings(hidden=8, aggregators=("mean",), message="complex", edge_dim=4)
    categories = benchmark(torch.tensor([0, 1]), torch.tensor([0, 2]), node_categories=(2,), edge_categories=(3,))
    numbers = benchmark(torch.rand(2, 5), torch.rand(2, 1))
    embedded, mapped = (build_network(settings, each, 1.0) for each in (categories, numbers))
    assert isinstance(embedded.node_encoder, CategoryEncoder)
    assert isinstance(embedded.edge_encoder, CategoryEncoder)
    assert isinstance(mapped.node_encoder, nn.Linear)
    assert isinstance(mapped.edge_encoder, nn.Linear)
    for network, each in ((embedded, categories), (mapped, numbers)):
        assert network(each.graphs[0]).shape == (1, 3)


def test_every_setting_reaches_the_network() -> None:
    settings = NetworkSettings(
        hidden=8, last=4, num_layers=3, aggregators=("mean", "dx1"), scalers=("identity", "attenuation"),
        message="complex", edge_dim=5, towers=2, readout="sum", dropout=0.25, batch_norm=False, residual=False,
        size_norm=False, virtual_node=True, num_eigenvector_features=2, dx_reference="message",
        initialization="authors", ffn_expansion=2, ffn_dropout=0.5,
    )  # fmt: skip
    network = build_for_inputs(settings, Inputs((7,), 2, 3), delta=1.5)
    conv = network.layers[0].conv
    assert len(network.layers) == 3
    assert network.plan.names == settings.aggregators
    assert (conv.delta, conv.scalers, conv.towers, conv.dx_reference) == (1.5, settings.scalers, 2, "message")
    assert network.edge_encoder.out_features == network.edge_dim == 5
    assert (network.readout, network.size_norm, network.initialization) == ("sum", False, "authors")
    assert network.layers[0].norm is None
    assert not network.layers[0].residual
    assert len(network.virtual_nodes) == 2
    assert [(block.widen.out_features, block.dropout.p) for block in network.feed_forwards] == [(16, 0.5)] * 2 + [
        (8, 0.5)
    ]
    assert network.positional.in_features == 2
    assert network.head[0].in_features == 4


def test_edges_without_features_cannot_be_encoded() -> None:
    settings = NetworkSettings(hidden=8, aggregators=("mean",), message="complex", edge_dim=4)
    with pytest.raises(
        ValueError, match=r"network.edge_dim: expected none, for the graphs have no edge features, got 4"
    ):
        build_for_inputs(settings, known_inputs("pattern"))


def test_unknown_datasets_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'zinc'"):
        known_inputs("zink")


def test_what_is_known_of_a_benchmark_is_what_it_holds() -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    assert Inputs.of(load_benchmark("digits")) == known_inputs("digits")
