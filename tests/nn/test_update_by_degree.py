"""The update by degree is the update: the same numbers and gradients as scaling after the product."""

import pytest
import torch

import dgn
from dgn.aggregation import degree_scalers
from dgn.nn.fused.select import update_by_degree_pays
from dgn.nn.linear import group_by_degree, update_by_degree

SCALERS = ("identity", "amplification", "attenuation")


@pytest.fixture
def graph():
    draw = torch.Generator().manual_seed(0)
    return dgn.as_graph(torch.randint(0, 150, (2, 300), generator=draw) // 2, num_nodes=80)  # 5 nodes without edges


def by_definition(aggregated, weight, graph):
    scale = degree_scalers(graph.in_degree, SCALERS, 1.3, aggregated.dtype)
    every = (aggregated @ weight.T).view(len(aggregated), len(SCALERS), -1)
    return (every * scale[:, :, None]).sum(dim=1)


@pytest.mark.parametrize("out", [5, 16])
def test_groups_give_the_scaled_sum_and_its_gradients(graph, out):
    draw = torch.Generator().manual_seed(1)
    inputs = [torch.randn(rows, 12, generator=draw).double().requires_grad_() for rows in (80, 3 * out)]
    weights = torch.randn(80, out, generator=draw).double()
    results = update_by_degree(*inputs, graph, SCALERS, 1.3), by_definition(*inputs, graph)
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-12)
    grads = (torch.autograd.grad((y * weights).sum(), inputs) for y in results)
    for mine, theirs in zip(*grads, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)


def test_gradcheck(graph):
    draw = torch.Generator().manual_seed(1)
    inputs = [torch.randn(rows, 3, generator=draw).double().requires_grad_() for rows in (80, 3 * 2)]
    assert torch.autograd.gradcheck(lambda *tensors: update_by_degree(*tensors, graph, SCALERS, 1.3), inputs)


def test_groups_hold_every_node_once_by_degree(graph):
    groups = group_by_degree(graph)
    assert torch.equal(groups.order.sort().values, torch.arange(80))
    assert torch.equal(groups.order[groups.inverse], torch.arange(80))
    sizes = torch.tensor(groups.bounds).diff()
    assert torch.equal(graph.in_degree[groups.order], groups.degree.repeat_interleave(sizes))


def test_few_nodes_of_a_degree_are_not_grouped(graph):
    ring = torch.arange(200)
    assert update_by_degree_pays(torch.zeros(200, 4), 1, 3, dgn.as_graph(torch.stack([ring, ring.roll(1)])))
    assert not update_by_degree_pays(torch.zeros(80, 4), 1, 3, graph)
    assert not update_by_degree_pays(torch.zeros(200, 4), 1, 1, dgn.as_graph(torch.stack([ring, ring.roll(1)])))
