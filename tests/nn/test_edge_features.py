"""Edges of few numbers: layers and networks that put features together inside, against features of every edge."""

import pytest
import torch
from torch import nn

from dgn.graph import Layout, as_graph
from dgn.graph.graph import Graph, GraphParts
from dgn.nn import DGNConv
from dgn.nn.edge_features import LowRankEdgeFeatures, is_low_rank
from dgn.nn.layer import DGNLayer
from dgn.nn.linear import Linear
from dgn.testing import random_graph
from tests.interpreter import DEVICE, check_in_interpreter, somewhere
from tests.networks import make_dgn

NODES, PADDING = 20, 7
AGGREGATORS = ["mean", "max", "min", "std", "dx1", "av1"]
LAYERS = [  # numbers of an edge, bias, towers, dx_reference, aggregators, scalers
    (1, True, 5, "node", ["mean", "dx1", "max"], ("identity",)),
    (1, True, 1, "message", AGGREGATORS, ("identity", "amplification")),
    (1, False, 5, "message", AGGREGATORS, ("identity",)),
    (3, True, 1, "node", AGGREGATORS, ("identity",)),
    (4, False, 1, "node", ["std", "av1"], ("identity", "attenuation")),
    (4, True, 5, "message", AGGREGATORS, ("identity",)),
]


def padded_graph():
    """A graph with edges behind all others that no node receives, as batches of one size have them."""
    edge_index, _ = random_graph(NODES, 3 / NODES, torch.Generator().manual_seed(1))
    graph = as_graph(edge_index)
    more = torch.arange(graph.num_edges, graph.num_edges + PADDING, dtype=torch.int32)
    pointer, order, neighbor = graph.by_target
    layout = Layout(pointer, torch.cat([order, more]), torch.cat([neighbor, 0 * more]))
    ends = torch.cat([edge_index, torch.zeros(2, PADDING).long()], dim=1).to(DEVICE)
    batch = torch.zeros(NODES).long().to(DEVICE)
    parts = GraphParts(
        num_graphs=1,
        by_target=Layout(*(part.to(DEVICE) for part in layout)),
        source_pointer=graph.source_pointer.to(DEVICE),
        target_to_source=torch.cat([graph.target_to_source, more]).to(DEVICE),
    )
    return Graph.from_layout(ends, batch, parts)


def draw(*size, seed=0):
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed + sum(size))).to(DEVICE)


def fill(module):
    for number, parameter in enumerate(module.parameters()):
        parameter.data = draw(*parameter.shape, seed=number)
    return module.to(DEVICE)


def numbers_of(graph, count, padding):
    return torch.cat([draw(graph.num_edges - PADDING, count), torch.full((PADDING, count), padding, device=DEVICE)])


def run_layer(case, few):
    count, bias, towers, dx_reference, aggregators, scalers = case
    conv = DGNConv(10, 10, aggregators, scalers, 1.3, "complex", 6, towers, dx_reference)
    layer, encoder, graph = fill(DGNLayer(conv)), fill(Linear(count, 6, bias=bias)), padded_graph()
    numbers = numbers_of(graph, count, torch.nan if few else 0.0)
    weights = conv.plan.compute_weights(draw(graph.num_edges, 1), padded_graph())
    x = draw(NODES, 10).requires_grad_()
    edges = LowRankEdgeFeatures.of(encoder, numbers, graph) if few else encoder(numbers)
    y = layer._fused(x, graph, weights, edges, None, None)
    y = layer._fused(y, graph, weights, edges, None, None)  # gradients of the encoder are gathered from both
    (y * draw(NODES, 10, seed=5)).sum().backward()
    parameters = {**dict(layer.named_parameters()), **{f"encoder.{n}": p for n, p in encoder.named_parameters()}}
    return {"out": y.detach(), "x": x.grad, **{name: value.grad for name, value in parameters.items()}}


def compare(got, expected, tolerance=2e-5):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        scale = 1 + float(value.abs().max())
        difference = float((got[name] - value).abs().max())
        assert difference < tolerance * scale, f"{name}: {difference} of {scale}"


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("case", LAYERS)
def test_kernel_layers_equal_those_of_every_edge(case):
    compare(run_layer(case, True), run_layer(case, False))


def make_network(**changes):
    options = {"message": "complex", "edge_encoder": Linear(1, 6), "edge_dim": 6, "aggregators": ["mean", "dx1", "max"]}
    torch.manual_seed(0)
    return make_dgn(3, 10, num_layers=2, **{**options, **changes}).to(DEVICE)


def run_network(network, numbers, graph):
    out = network(draw(NODES, 3), graph, edge_field=draw(graph.num_edges, 1), edge_attr=numbers)
    out.sum().backward()
    return {"out": out.detach(), **{name: value.grad for name, value in network.named_parameters()}}


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("towers", [1, 5])
def test_kernel_networks_keep_numbers_where_all_layers_read_them(towers, monkeypatch):
    if DEVICE == "cpu":
        monkeypatch.setattr("dgn.nn.fused.select.kernels_apply", lambda _, norm: norm.training)
    graph, kinds = as_graph(random_graph(NODES, 3 / NODES, torch.Generator().manual_seed(1))[0].to(DEVICE), NODES), []
    numbers, network = draw(graph.num_edges, 1), make_network(towers=towers, edge_encoder=Linear(1, 6))
    honest = network._edges
    network._edges = lambda *arguments: kinds.append(honest(*arguments)) or kinds[-1]
    got = run_network(network, numbers, graph)
    network.zero_grad()
    monkeypatch.setattr("dgn.nn.network.is_low_rank", lambda *_: False)
    compare(got, run_network(network, numbers, graph), 1e-4)
    assert [type(edges) for edges in kinds] == [LowRankEdgeFeatures, torch.Tensor]


@pytest.mark.gpu
@somewhere
def test_kernel_networks_build_features_where_a_layer_needs_them(monkeypatch):
    if DEVICE == "cpu":
        monkeypatch.setattr("dgn.nn.fused.select.kernels_apply", lambda _, norm: norm.training)
    graph = as_graph(random_graph(NODES, 3 / NODES, torch.Generator().manual_seed(1))[0].to(DEVICE), NODES)
    numbers = draw(graph.num_edges, 1)
    assert isinstance(make_network()._edges(numbers, graph), LowRankEdgeFeatures)
    assert isinstance(make_network(edge_encoder=nn.Linear(1, 6))._edges(numbers, graph), LowRankEdgeFeatures)
    for changes in ({"batch_norm": False}, {"backend": "reference"}):
        assert isinstance(make_network(**changes)._edges(numbers, graph), torch.Tensor), changes
    assert isinstance(make_network().eval()._edges(numbers, graph), torch.Tensor)
    for asked in (numbers.clone().requires_grad_(), numbers.double()):
        assert not is_low_rank(Linear(1, 6), asked, graph)
    network, field = make_network(), draw(graph.num_edges, 1).requires_grad_()  # its gradient is asked for
    network(draw(NODES, 3), graph, edge_field=field, edge_attr=numbers).sum().backward()
    gradients = {name: value.grad.clone() for name, value in network.edge_encoder.named_parameters()}
    network.zero_grad()
    monkeypatch.setattr("dgn.nn.network.is_low_rank", lambda *_: False)
    network(draw(NODES, 3), graph, edge_field=field, edge_attr=numbers).sum().backward()
    compare(gradients, {name: value.grad for name, value in network.edge_encoder.named_parameters()})


@pytest.mark.slow
def test_the_kernels_in_the_interpreter():
    check_in_interpreter(__file__, "kernel_", len(LAYERS) + 3)


class Doubled(nn.Linear):
    def forward(self, numbers):
        return 2 * super().forward(numbers)


def test_only_a_plain_linear_map_of_few_numbers_is_kept():
    graph = as_graph(torch.tensor([[0, 1], [1, 0]]))
    assert is_low_rank(nn.Linear(4, 3), torch.ones(2, 4), graph)
    assert is_low_rank(Linear(1, 3, bias=False), torch.ones(2, 1), graph)
    assert not is_low_rank(Doubled(1, 3), torch.ones(2, 1), graph)
    assert not is_low_rank(nn.Sequential(nn.Linear(1, 3)), torch.ones(2, 1), graph)
    assert not is_low_rank(nn.Linear(5, 3), torch.ones(2, 5), graph)
    assert not is_low_rank(nn.Linear(1, 3), torch.ones(3, 1), graph)


def test_a_layer_that_cannot_read_numbers_builds_the_features():
    graph, encoder, x = as_graph(torch.tensor([[0, 1, 2], [1, 2, 0]])), Linear(2, 3), torch.randn(3, 4)
    numbers, layer = torch.randn(3, 2), DGNLayer(DGNConv(4, 4, ["mean", "max"], message="complex", edge_dim=3)).eval()
    out = layer(x, graph, edge_attr=LowRankEdgeFeatures.of(encoder, numbers, graph))
    assert torch.equal(out, layer(x, graph, edge_attr=encoder(numbers)))
