"""Initial values of modules that a network did not make itself."""

import torch
from torch import nn

from tests.networks import make_dgn


def modules_of_ones_own(**options):
    """A network with an encoder of several parts, and messages of a module without biases."""
    encoder = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 8))
    message = nn.Sequential(nn.Linear(16, 8, bias=False), nn.Tanh())
    return make_dgn(encoder, 8, num_layers=2, message=message, **options)


def test_reset_draws_parts_of_modules_again():
    net = modules_of_ones_own()
    before = {name: parameter.clone() for name, parameter in net.named_parameters()}
    net.reset_parameters()
    same = {name for name, parameter in net.named_parameters() if torch.equal(before[name], parameter)}
    assert same == {name for name in before if ".norm." in name}


def test_the_authors_values_of_a_map_without_bias():
    net = modules_of_ones_own(initialization="authors")
    bound = (6 / (8 + 16)) ** 0.5 / 16
    assert 0.8 * bound < float(net.layers[0].conv.message[0].weight.detach().abs().max()) <= bound
