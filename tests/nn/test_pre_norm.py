"""Norms in front of the blocks, against their formula."""

import pytest
import torch
from torch import nn
from torch.nn import functional

import dgn
from dgn.nn import DGN, DGNConv, DGNLayer
from dgn.nn.blocks.feed_forward import FeedForward
from dgn.nn.norm import BatchNorm
from dgn.nn.pre_norm import normalize
from dgn.testing import grid, random_graph

EDGES, N = random_graph(7, 0.5, torch.Generator().manual_seed(3))
SIZE = torch.linspace(0.2, 0.8, N, dtype=torch.float64)[:, None]


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawn(module):
    """A module in double precision whose norms are not the identity."""
    for part in module.modules():
        if isinstance(part, BatchNorm):
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)
    return module.double()


def make(out_channels=4, towers=1, **options):
    torch.manual_seed(0)
    conv = DGNConv(4, out_channels, ["mean", "max"], message="complex", towers=towers)
    return drawn(DGNLayer(conv, norm="before", **options))


def normed(norm, x):
    return functional.batch_norm(x, None, None, norm.weight, norm.bias, training=True)


def seeded(function, *arguments, **options):
    torch.manual_seed(7)
    return function(*arguments, **options)


@pytest.mark.parametrize("size", [None, SIZE], ids=["no size norm", "size norm"])
@pytest.mark.parametrize("out_channels", [4, 2])
def test_one_tower(size, out_channels):
    layer, x = make(out_channels, dropout=0.5), random(N, 4)
    y = layer.conv(normed(layer.norm, x if size is None else size * x), EDGES).relu()
    y = seeded(functional.dropout, y, 0.5)
    expected = x + y if out_channels == 4 else y  # no residual where the widths differ
    torch.testing.assert_close(seeded(layer, x, dgn.as_graph(EDGES, N), size=size), expected)


def test_towers():
    layer, x = make(towers=2, dropout=0.5), random(N, 4)
    y = seeded(functional.dropout, layer.conv(normed(layer.norm, x), EDGES), 0.5)
    expected = x + functional.leaky_relu(layer.mix(y), 0.01)
    torch.testing.assert_close(seeded(layer, x, dgn.as_graph(EDGES, N)), expected)


def test_the_perceptron():
    torch.manual_seed(0)
    block, x = drawn(FeedForward(4, factor=3, norm="before")), random(N, 4)
    expected = x + block.narrow(block.widen(normed(block.norm, x)).relu())
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize("block", [make(), make(towers=2)], ids=["one tower", "towers"])
def test_gradients(block):
    graph, given = dgn.as_graph(EDGES, N), (random(N, 4).requires_grad_(), *block.parameters())
    assert torch.autograd.gradcheck(lambda x, *_: block(x, graph, size=SIZE), given)


def test_padding_changes_nothing():
    alone, padded = drawn(FeedForward(4, norm="before")), drawn(FeedForward(4, norm="before"))
    padded.load_state_dict(alone.state_dict())
    x, real = random(N, 4), (torch.arange(N + 3) < N).double()[:, None]
    expected, got = alone(x), padded(torch.cat([x, 100 + random(3, 4)]), real)[:N]
    torch.testing.assert_close(got, expected)
    for out in (expected, got):
        out.square().sum().backward()
    torch.testing.assert_close([p.grad for p in padded.parameters()], [p.grad for p in alone.parameters()])
    torch.testing.assert_close(dict(padded.named_buffers()), dict(alone.named_buffers()))


def test_kernels_give_the_same():
    """Wide and large enough that the CPU takes its own kernels, without padding."""
    pytest.importorskip("numba")
    edge_index, n = grid(30, 30)
    x, found = random(n, 16).float(), []
    for real in (None, torch.ones(n, 1)):
        torch.manual_seed(0)
        layer = DGNLayer(DGNConv(16, 16, ["mean", "max"], message="complex"), norm="before")
        out = layer(x, dgn.as_graph(edge_index, n), real=real)
        out.square().mean().backward()
        found.append([out, *(parameter.grad for parameter in layer.parameters()), *layer.buffers()])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)


def test_a_network_is_normalised_once_more_before_it_is_read_out():
    torch.manual_seed(0)
    net = drawn(DGN(nn.Linear(3, 16), 16, num_layers=2, aggregators=["mean"], norm="before", feed_forward=2))
    x, graph = random(N, 3), dgn.as_graph(EDGES, N)
    size = torch.full((N, 1), N**-0.5, dtype=torch.float64)
    h = net.node_encoder(x)
    for layer, block in zip(net.layers, net.feed_forwards, strict=True):
        h = block(layer(h, graph, size=size))
    out = net(x, EDGES)
    torch.testing.assert_close(out, net.head(normed(net.last_norm, h).mean(0, keepdim=True)))
    out.sum().backward()
    assert bool(net.last_norm.bias.grad.any())  # not cut off by the head
    assert not net.is_whole(torch.device("cpu"))
    net.reset_parameters()
    assert torch.equal(net.last_norm.weight, torch.ones(16).double())


def test_the_norm_keeps_its_running_statistics():
    norm, x = BatchNorm(4).double(), random(N, 4)
    expected = nn.BatchNorm1d(4).double()
    torch.testing.assert_close(normalize(x, norm), expected(x))
    torch.testing.assert_close(normalize(x, norm.eval()), expected.eval()(x))
    torch.testing.assert_close(dict(norm.named_buffers()), dict(expected.named_buffers()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm": "befor"}, "norm: expected one of 'after', 'before', got 'befor'; did you mean 'before'"),
        ({"norm": "before", "batch_norm": False}, "norm: expected 'after' without batch norm, got 'before'"),
    ],
)
def test_a_place_that_is_none_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DGN(nn.Linear(3, 4), 4, aggregators=["mean"], **options)
