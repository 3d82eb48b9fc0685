"""Dropout from a generator of one's own."""

import pytest
import torch
from torch import nn

from dgn.nn.dropout import Dropout, draw_from, draw_kept

X = torch.rand(200, 50) + 1


def seeded(seed, p=0.3):
    dropout = Dropout(p)
    dropout.generator = torch.Generator().manual_seed(seed)
    return dropout


def test_what_is_kept_is_scaled_so_that_the_mean_stays():
    out = seeded(0)(X)
    nonzero = out != 0
    torch.testing.assert_close(out[nonzero], X[nonzero] / 0.7)
    assert 0.27 < 1 - nonzero.float().mean() < 0.33
    assert abs(float(out.mean() / X.mean()) - 1) < 0.05


def test_the_generator_alone_decides():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one = seeded(5)(X)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)
    assert torch.equal(seeded(5)(X), one)
    assert not torch.equal(seeded(6)(X), one)
    again = seeded(5)
    assert not torch.equal(again(X), again(X))


def test_gradients_pass_where_values_pass():
    x = X.clone().requires_grad_()
    out = seeded(0)(x)
    out.sum().backward()
    torch.testing.assert_close(x.grad, (out != 0) / 0.7)


def test_a_share_of_everything_keeps_nothing():
    dropout = Dropout(1.0)
    for dropout.generator in (None, torch.Generator().manual_seed(0)):
        assert torch.equal(dropout(torch.ones(3, 5)), torch.zeros(3, 5))


def test_without_a_generator_it_is_pytorchs():
    torch.manual_seed(0)
    ours = Dropout(0.3)(X)
    torch.manual_seed(0)
    assert torch.equal(ours, nn.Dropout(0.3)(X))


@pytest.mark.parametrize("dropout", [seeded(0).eval(), seeded(0, p=0.0)])
def test_nothing_to_do(dropout):
    assert dropout(X) is X


def test_every_part_of_a_network_draws_from_one_generator():
    generator = torch.Generator()
    network = nn.Sequential(Dropout(0.5), nn.Sequential(Dropout(0.5), nn.Dropout(0.5)))
    draw_from(network, generator)
    assert network[0].generator is network[1][0].generator is generator
    draw_from(network, None)
    assert network[0].generator is None


@pytest.mark.parametrize("p", [0.1, 0.5, 0.999])
def test_kept_numbers_have_the_probability(p):
    count = 400_000
    mask = draw_kept(torch.Size([count, 1]), p, torch.Generator().manual_seed(0))
    assert mask.shape == (count, 1)
    assert abs(float(mask.double().mean()) - (1 - p)) < 5 * (p * (1 - p) / count) ** 0.5 + 2**-16


def test_a_share_of_nearly_nothing_keeps_nearly_everything():
    assert draw_kept(torch.Size([100]), 1e-9, torch.Generator().manual_seed(0)).float().mean() > 0.9
