"""A convolution on the GPU as one function: against plain PyTorch in double precision, forward and backward."""

import pytest
import torch

from dgn.graph import as_graph
from dgn.nn import DGNConv
from dgn.nn.conv import sum_parts
from dgn.nn.edge_features import EdgeTable
from dgn.testing import random_graph
from tests.interpreter import DEVICE, check_in_interpreter, somewhere

NODES = 34  # more than one block of rows; the interpreter takes seconds for each
CASES = [  # message, rows of edge features (-1: one per edge), dx_reference, in, out, scalers, towers
    ("simple", 0, "message", 6, 6, 1, 1),
    ("simple", 0, "message", 20, 9, 3, 1),
    ("simple", 0, "message", 130, 3, 1, 1),
    ("complex", 0, "node", 6, 6, 1, 1),
    ("complex", 5, "node", 18, 18, 3, 1),
    ("complex", 40, "message", 70, 34, 2, 1),
    ("complex", -1, "node", 12, 8, 3, 4),
    ("complex", -1, "message", 6, 6, 1, 1),
]


def fused(conv, x, graph, weights, edges):
    from dgn.nn.fused.gpu_conv import fused_conv

    return fused_conv(x, conv, graph, weights, edges)


def by_definition(conv, x, graph, weights, edges):
    conv.backend = "reference"
    return sum_parts(conv.parts(x, graph, weights, edges))


def run(way, dtype, message, kinds, dx_reference, width, out, scalers, towers, sorted_by_source=False):
    generator = torch.Generator().manual_seed(width)

    def draw(*size):
        return torch.randn(*size, generator=generator).to(DEVICE, dtype)

    names = ("identity", "amplification", "attenuation")[:scalers]
    edge_dim = 3 if kinds else None
    conv = DGNConv(width, out, ["mean", "dx1", "max", "av1"], names, 1.3, message, edge_dim, towers, dx_reference)
    for parameter in conv.to(DEVICE, dtype).parameters():
        parameter.data = draw(*parameter.shape)
    edge_index, _ = random_graph(NODES, 4.8 / NODES, torch.Generator().manual_seed(1))
    graph = as_graph(edge_index.to(DEVICE), NODES)
    assert not sorted_by_source or graph.source_order.numel()  # kernels then need no other order
    table = draw(graph.num_edges if kinds < 0 else kinds, 3).requires_grad_() if kinds else None
    row = torch.randint(max(kinds, 1), (graph.num_edges,), generator=generator).to(DEVICE)
    edges = EdgeTable(table, row) if kinds > 0 else table
    arguments = graph, conv.plan.compute_weights(draw(graph.num_edges, 1), graph), edges
    x = draw(NODES, width).requires_grad_()
    y = way(conv, x, *arguments)
    (y * draw(NODES, out)).sum().backward()
    with torch.no_grad():
        assert torch.equal(way(conv, x, *arguments), y)
    grads = {name: value.grad for name, value in conv.named_parameters()}
    return {"out": y.detach(), "x": x.grad, **grads, **({} if table is None else {"table": table.grad})}


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("case", CASES)
def test_the_convolution_equals_its_definition(case):
    got, expected = run(fused, torch.float32, *case), run(by_definition, torch.float64, *case)
    for name, value in expected.items():
        scale = 1 + float(value.abs().max())
        difference = float((got[name].to(value.dtype) - value).abs().max())
        assert difference < 2e-5 * scale, f"{name}: {difference} of {scale}"


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("case", CASES[::3])
def test_the_definition_holds_for_edges_sorted_by_source(case):
    got, expected = run(fused, torch.float32, *case, sorted_by_source=True), run(fused, torch.float32, *case)
    for name, value in expected.items():
        torch.testing.assert_close(got[name], value, rtol=1e-5, atol=1e-4)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("aggregators", [["sum", "min", "std"], ["max"], ["dx2-signed", "fwd1"]])
def test_simple_messages_have_the_definition_of_every_plan(aggregators):
    generator = torch.Generator().manual_seed(0)
    edge_index, _ = random_graph(NODES, 4.8 / NODES, generator)
    graph, results = as_graph(edge_index.to(DEVICE), NODES), []
    field, x = (torch.randn(n, k, generator=generator).to(DEVICE) for n, k in ((graph.num_edges, 2), (NODES, 6)))
    conv = DGNConv(6, 4, aggregators).to(DEVICE)
    weights = conv.plan.compute_weights(field, graph)
    for way in (fused, by_definition):
        inputs = x.clone().requires_grad_()
        y = way(conv, inputs, graph, weights, None)
        results.append((y, *torch.autograd.grad(y.square().sum(), [inputs, conv.update.scaled, conv.update.bias])))
        (without,) = torch.autograd.grad(way(conv, x, graph, weights, None).square().sum(), [conv.update.bias])
        assert torch.equal(without, results[-1][-1])  # features that need no gradient change no other
    for got, expected in zip(*results, strict=True):
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_the_convolution_in_the_interpreter():
    check_in_interpreter(__file__, "definition", len(CASES) + len(CASES[::3]) + 3)
