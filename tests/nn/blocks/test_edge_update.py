"""States of edges against their formula, edge by edge."""

import pytest
import torch
from torch import nn

import dgn
from dgn.nn import DGN, CategoryEncoder
from dgn.nn.blocks.edge_update import EdgeUpdate
from dgn.testing import random_graph

EDGES, N = random_graph(7, 0.5, torch.Generator().manual_seed(3))
EDGES = EDGES[:, torch.randperm(EDGES.size(1), generator=torch.Generator().manual_seed(0))]
E = EDGES.size(1)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(**options):
    torch.manual_seed(0)
    return EdgeUpdate(4, 3, **options).double()


def by_definition(block, edges, x, index):
    p, q = block.ends.weight.chunk(2)
    y = torch.stack([p @ x[j] + q @ x[i] for j, i in index.T.tolist()])
    y = y + torch.nn.functional.linear(edges, block.edge.weight, block.edge.bias)
    if block.norm is not None:
        y = (y - y.mean(0)) / (y.var(0, unbiased=False) + block.norm.eps).sqrt()
        y = y * block.norm.weight + block.norm.bias
    return edges + y.relu()


@pytest.mark.parametrize("batch_norm", [True, False])
def test_it_is_what_it_says(batch_norm):
    block, edges, x = make(batch_norm=batch_norm), random(E, 3), random(N, 4, seed=1)
    torch.testing.assert_close(block(edges, x, dgn.as_graph(EDGES, N)), by_definition(block, edges, x, EDGES))


@pytest.mark.parametrize("batch_norm", [True, False])
def test_gradients(batch_norm):
    block, graph = make(batch_norm=batch_norm), dgn.as_graph(EDGES, N)
    given = random(E, 3).requires_grad_(), random(N, 4, seed=1).requires_grad_(), *block.parameters()
    assert torch.autograd.gradcheck(lambda edges, x, *_: block(edges, x, graph), given)


def test_padding_changes_nothing():
    """Edges of padding begin and end in a node of padding, and may hold anything."""
    alone, padded = make(), make()
    edges, x = random(E, 3), random(N, 4, seed=1)
    more, far = torch.cat([edges, 100 + random(5, 3, seed=2)]), torch.cat([x, 100 + random(2, 4, seed=3)])
    graph = dgn.as_graph(torch.cat([EDGES, torch.full((2, 5), N + 1)], dim=1), N + 2)
    real = (torch.arange(N + 2) < N).double()[:, None]
    expected, got = alone(edges, x, dgn.as_graph(EDGES, N)), padded(more, far, graph, real)[:E]
    torch.testing.assert_close(got, expected)
    for out in (expected, got):
        out.square().sum().backward()
    torch.testing.assert_close([p.grad for p in padded.parameters()], [p.grad for p in alone.parameters()])
    torch.testing.assert_close(dict(padded.named_buffers()), dict(alone.named_buffers()))


@pytest.mark.parametrize("count", [0, 1])
@pytest.mark.parametrize("told", [True, False])
def test_few_edges_spoil_no_statistic(count, told):
    block, x = make(), random(2, 4)
    real = torch.ones(2, 1).double() if told else None
    out = block(random(count, 3), x, dgn.as_graph(torch.tensor([[0], [1]])[:, :count], 2), real)
    out.sum().backward()
    assert out.shape == (count, 3)
    assert all(torch.isfinite(value).all() for value in [*block.buffers(), *(p.grad for p in block.parameters())])


def network(**options):
    torch.manual_seed(0)
    settings = {"message": "complex", "edge_encoder": CategoryEncoder((4,), 3), "edge_dim": 3} | options
    return DGN(nn.Linear(4, 16), 16, num_layers=3, last=12, aggregators=["mean", "max"], **settings).double()


def test_a_network_changes_edges_between_layers():
    net, kinds, x = network(edge_updates=True, size_norm=False), torch.arange(E) % 4, random(N, 4)
    graph, edges, h = dgn.as_graph(EDGES, N), net.edge_encoder(kinds), net.node_encoder(x)
    for number, layer in enumerate(net.layers):
        h = layer(h, graph, None, edges)
        edges = by_definition(net.edge_updates[number], edges, h, EDGES) if number < 2 else edges
    torch.testing.assert_close(net(x, EDGES, edge_attr=kinds), net.head(h.mean(0, keepdim=True)))
    net(x, EDGES, edge_attr=kinds).sum().backward()
    assert all(bool(parameter.grad.any()) for parameter in net.edge_updates.parameters())
    assert not net.is_whole(torch.device("cpu"))


def test_edges_without_features_have_no_state():
    with pytest.raises(ValueError, match=r"edge_updates: expected edge features to update, got edge_dim=None; pass"):
        network(edge_updates=True, edge_encoder=None, edge_dim=None)


def test_reset_reaches_it():
    net = network(edge_updates=True)
    before = [parameter.clone() for parameter in net.edge_updates.parameters() if parameter.dim() == 2]
    net.reset_parameters()
    after = [parameter for parameter in net.edge_updates.parameters() if parameter.dim() == 2]
    assert not any(map(torch.equal, before, after))
