"""Networks of experiments have encoders for their inputs and the published numbers of parameters."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from dgn.data import PackedGraphs
from dgn.data.benchmark import load_benchmark
from dgn.nn import CategoryEncoder
from dgn.training.build import Inputs, build_for_inputs, build_network, known_inputs
from dgn.training.config import NetworkSettings
from dgn.training.experiment import experiment_names, load_experiment
from dgn.tuning.width import size

#: Networks that the paper itself made larger or smaller than its budget of 100,000.
OTHER_BUDGET = {"zinc/simple/mean", "pattern/simple/mean", "pattern/complex/mean"}
OTHER_BUDGET |= {"molhiv/simple/mean", "molhiv/simple/mean-dx1-dx2", "molhiv/simple/mean-av1-av2"}
OTHER_BUDGET |= {"molhiv/simple/mean-dx1-av1"}
OTHER_BUDGET |= {"cifar10/tuned-no-edges"}  # its width was found by a search


def test_shipped_experiments_have_their_number_of_parameters() -> None:
    for name in experiment_names():
        if "/plus" not in name:  # those beyond the paper have other budgets: tests/tuning/test_ablation.py
            count = size(load_experiment(name))
            low, high = expected_size(name)
            assert low <= count <= high, f"{name}: expected {low:,.0f} to {high:,.0f} parameters, got {count:,}"


def expected_size(name: str) -> tuple[float, float]:
    experiment = load_experiment(name)
    published = experiment.published
    if published is not None and published.parameters is not None and "network.hidden" not in published.assumed:
        return published.parameters, published.parameters
    if name == "molpcba/small":
        return 400_000, 500_000
    if experiment.data.dataset == "molpcba":
        return 6_500_000, 8_000_000
    if name in OTHER_BUDGET:
        return 75_000, 125_000
    budget = 30_000 if experiment.data.dataset == "digits" else 100_000
    return 0.85 * budget, 1.15 * budget


def benchmark(x: torch.Tensor, edge_attr: torch.Tensor | None, **sizes: Any) -> Any:
    """Two connected nodes with features, described as a benchmark."""
    graphs = PackedGraphs.pack([(torch.tensor([[0, 1], [1, 0]]), 2)]).with_values(
        nodes={"x": x}, edges={} if edge_attr is None else {"edge_attr": edge_attr}
    )
    return SimpleNamespace(
        graphs=graphs,
        **{"num_targets": 3, "node_categories": None, "edge_categories": None, "structure": None} | sizes,
    )


def test_categories_are_embedded_and_continuous_features_mapped() -> None:
    settings = NetworkSettings(hidden=8, aggregators=("mean",), message="complex", edge_dim=4)
    categories = benchmark(torch.tensor([0, 1]), torch.tensor([0, 2]), node_categories=(2,), edge_categories=(3,))
    numbers = benchmark(torch.rand(2, 5), torch.rand(2, 1))
    embedded, mapped = (build_network(settings, data, 1.0) for data in (categories, numbers))
    assert isinstance(embedded.node_encoder, CategoryEncoder)
    assert isinstance(embedded.edge_encoder, CategoryEncoder)
    assert isinstance(mapped.node_encoder, nn.Linear)
    assert isinstance(mapped.edge_encoder, nn.Linear)
    for network, data in ((embedded, categories), (mapped, numbers)):
        assert network(data.graphs[0]).shape == (1, 3)


def test_every_setting_reaches_the_network() -> None:
    settings = NetworkSettings(
        hidden=8, last=4, num_layers=3, aggregators=("mean", "dx1"), scalers=("identity", "attenuation"),
        message="complex", edge_dim=5, towers=2, readout="sum", dropout=0.25, batch_norm=False, residual=False,
        size_norm=False, virtual_node=True, num_eigenvector_features=2, dx_reference="message",
        initialization="authors", ffn_expansion=2, ffn_dropout=0.5, head_layers=1,
    )  # fmt: skip
    network = build_for_inputs(settings, Inputs((7,), 2, 3), delta=1.5)
    conv = network.layers[0].conv
    assert len(network.layers) == 3
    assert network.plan.names == settings.aggregators
    assert (conv.delta, conv.scalers, conv.towers, conv.dx_reference) == (1.5, settings.scalers, 2, "message")
    assert network.edge_encoder.out_features == 5
    assert network.settings == settings  # readout, size norm and initialization are read from there
    assert network.layers[0].norm is None
    assert not network.layers[0].residual
    assert len(network.virtual_nodes) == 2
    assert [(block.widen.out_features, block.dropout.p) for block in network.feed_forwards] == [(16, 0.5)] * 2 + [
        (8, 0.5)
    ]
    assert network.positional.in_features == 2
    assert [(part.in_features, part.out_features) for part in network.head if isinstance(part, nn.Linear)] == [
        (4, 4),
        (4, 3),
    ]


def test_edge_channels_without_edge_features_are_refused() -> None:
    settings = NetworkSettings(hidden=8, aggregators=("mean",), message="complex", edge_dim=4)
    with pytest.raises(ValueError, match=r"network.edge_dim: expected none for graphs without edge features, got 4"):
        build_for_inputs(settings, known_inputs("pattern"))


def test_unknown_datasets_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'zinc'"):
        known_inputs("zink")


def test_known_inputs_equal_those_of_the_loaded_benchmark() -> None:
    pytest.importorskip("sklearn", reason="the digits come with scikit-learn")
    assert Inputs.of(load_benchmark("digits")) == known_inputs("digits")
