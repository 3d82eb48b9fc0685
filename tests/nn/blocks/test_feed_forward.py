"""The perceptron between layers."""

import torch

from dgn.nn import DGN, NetworkSettings
from dgn.nn.blocks.feed_forward import FeedForward


def test_it_is_what_it_says():
    torch.manual_seed(0)
    block = FeedForward(6, factor=3)
    x = torch.randn(9, 6)
    wide = torch.nn.functional.linear(x, block.widen.weight, block.widen.bias)
    unit = (wide - wide.mean(0)) / (wide.var(0, unbiased=False) + block.norm.eps).sqrt()
    expected = x + torch.nn.functional.linear(unit.relu(), block.narrow.weight, block.narrow.bias)
    torch.testing.assert_close(block(x), expected)


def test_padding_changes_nothing():
    torch.manual_seed(0)
    block, x = FeedForward(6), torch.randn(9, 6)
    padded = torch.cat([x, 100 + torch.randn(4, 6)])
    real = (torch.arange(13) < 9).float()[:, None]
    torch.testing.assert_close(block(padded, real)[:9], block(x))


def test_a_network_has_one_behind_each_layer():
    net = DGN(
        torch.nn.Linear(3, 8), NetworkSettings(hidden=8, num_layers=3, last=4, aggregators=["mean"], ffn_expansion=2)
    )
    assert [block.widen.weight.shape for block in net.feed_forwards] == [(16, 8), (16, 8), (8, 4)]
    edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    before = net(torch.randn(3, 3), edge_index)
    before.sum().backward()
    assert all(parameter.grad is not None for parameter in net.feed_forwards.parameters())
    net.reset_parameters()
