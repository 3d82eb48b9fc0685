"""Weights and degree scalers of kernels, against their definitions in PyTorch."""

import math

import pytest
import torch

from dgn.aggregation import degree_scalers, make_plan
from dgn.graph import as_graph
from dgn.testing import random_graph
from tests.interpreter import DEVICE, check_in_interpreter, somewhere

pytest.importorskip("triton", reason="Triton is not installed")

from dgn.kernels.triton import field_weights

NODES = 60
PLANS = [["dx1"], ["mean", "av1", "dx2"], ["dx1-signed", "dx1", "av3"]]


def make_case(dtype):
    edge_index, _ = random_graph(NODES, 0.06, torch.Generator().manual_seed(0))
    field = torch.randn(edge_index.size(1), 3, generator=torch.Generator().manual_seed(1), dtype=dtype)
    field[field.abs() < 0.3] = 0
    field[:, 1] *= 1e-3
    field[:7] = 1e-12  # noise, that is no direction
    return as_graph(edge_index, NODES), field


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("names", PLANS)
def test_kernels_weigh_by_the_definition(names, dtype):
    graph, field = make_case(dtype)
    plan, layout = make_plan(names), graph.by_target
    expected = plan.compute_weights(field, graph)
    field = field.to(DEVICE)
    largest, finite = field_weights.largest_component(field)
    columns = tuple((weight.direction - 1, weight.operator == "dx") for weight in plan.weights)
    got = field_weights.compute(field, largest, columns, layout.pointer.to(DEVICE), layout.order.to(DEVICE))
    assert finite.item() is True
    assert torch.equal(largest.cpu(), field.abs().amax(dim=0).cpu())
    for actual, value in zip(got, expected, strict=True):
        torch.testing.assert_close(actual.cpu(), value, rtol=1e-5, atol=1e-6)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_kernels_find_what_is_not_finite(wrong):
    field = torch.ones(5000, 2, device=DEVICE)
    field[4321, 1] = wrong
    assert field_weights.largest_component(field)[1].item() is False


@pytest.mark.gpu
@somewhere
def test_kernels_scale_by_the_definition():
    graph, _ = make_case(torch.float32)
    assert graph.in_degree.min() == 0  # its attenuation is 1
    names = ("identity", "amplification", "attenuation")
    got = field_weights.degree_scalers(graph.by_target.pointer.to(DEVICE), (0, 1, 2), 1.3)
    torch.testing.assert_close(got.cpu(), degree_scalers(graph.in_degree, names, 1.3, torch.float32))


@pytest.mark.slow
def test_weights_in_the_interpreter():
    check_in_interpreter(__file__, "kernels", 2 * len(PLANS) + 4)
