"""Ensemble: each one learns as if it were alone, and what they say is averaged."""

import pytest
import torch

from dgn.nn import DGN, Ensemble, NetworkSettings
from tests.networks import make_dgn

EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
BATCH = torch.zeros(3, dtype=torch.long)


def make(count=3):
    torch.manual_seed(0)
    return [
        DGN(
            2, NetworkSettings(hidden=6, aggregators=["mean", "max"], num_layers=2, batch_norm=False), out_channels=2
        ).double()
        for _ in range(count)
    ]


def test_what_they_say_is_their_mean():
    networks, x = make(), torch.randn(3, 2, dtype=torch.float64)
    outputs = torch.stack([network(x, EDGES, batch=BATCH) for network in networks])
    assert not torch.allclose(outputs[0], outputs[1])
    torch.testing.assert_close(Ensemble(networks).eval()(x, EDGES, batch=BATCH), outputs.mean(dim=0))


def test_every_branch_has_the_gradient_that_it_has_alone():
    networks, x = make(), torch.randn(3, 2, dtype=torch.float64)
    target = torch.tensor([[1.0, -1.0]], dtype=torch.float64)
    alone = []
    for network in networks:
        loss = (network(x, EDGES, batch=BATCH) - target).square().mean()
        alone += torch.autograd.grad(loss, list(network.parameters()))
    ensemble = Ensemble(networks)
    outputs = ensemble(x, EDGES, batch=BATCH)
    assert outputs.shape == (3, 2)
    (outputs - target.repeat(3, 1)).square().mean().backward()
    for parameter, gradient in zip(ensemble.parameters(), alone, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def test_every_branch_is_reset():
    ensemble = Ensemble(make())
    before = [network.head[0].weight.clone() for network in ensemble.members]
    ensemble.reset_parameters()
    after = [network.head[0].weight for network in ensemble.members]
    assert not any(torch.equal(old, new) for old, new in zip(before, after, strict=True))


def test_it_is_asked_as_a_network_is():
    options = {"aggregators": ["mean"], "scalers": ["amplification"], "delta": 1.5, "num_layers": 1}
    ensemble = Ensemble([make_dgn(2, 6, **options) for _ in range(2)])
    assert ensemble.plan is ensemble.members[0].plan
    assert ensemble.delta == 1.5


def test_no_networks_are_refused():
    with pytest.raises(ValueError, match="networks: expected at least one"):
        Ensemble([])
