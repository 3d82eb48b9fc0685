"""A whole layer on the GPU: the kernels against plain PyTorch in double precision, forward and backward."""

import itertools

import pytest
import torch

from dgn.graph import as_graph
from dgn.nn import DGNConv
from dgn.nn.dropout import Dropout
from dgn.nn.edge_features import EdgeTable
from dgn.nn.fused.gpu_conv import NARROW, block_diag
from dgn.nn.layer import DGNLayer, epilogue
from dgn.testing import random_graph
from tests.interpreter import DEVICE, INTERPRETED, check_in_interpreter, somewhere

NODES = 34 if INTERPRETED else 80  # more than one block of rows; the interpreter takes seconds for each
SHAPES = [  # message, kinds of edges (-1: numbers), dx_reference, in, out, scalers, towers
    ("simple", 0, "message", 6, 6, 1, 1),
    ("simple", 0, "message", 20, 9, 3, 1),
    ("complex", 0, "message", 6, 6, 3, 1),
    ("complex", 5, "message", 6, 6, 1, 1),
    ("complex", 5, "node", 18, 18, 3, 1),
    ("complex", 40, "node", 70, 34, 2, 1),
    ("complex", 0, "message", 12, 12, 3, 3),
    ("complex", 5, "node", 12, 8, 3, 4),
    ("complex", -1, "message", 6, 6, 2, 3),
]
PARTS = [("size", "real", "dx1"), ("kept", "real"), ("kept", "dx1", "max")]
AGGREGATORS = ("dx1", "dx1-signed", "max", "min", "std", "var")
CASES = [
    *zip(SHAPES, itertools.cycle(PARTS)),
    (("complex", 5, "message", 6, 6, 3, 1), ("kept", *AGGREGATORS)),
    (("complex", 5, "node", 8, 6, 3, 2), ("kept", "real", *AGGREGATORS)),
    (("complex", 0, "message", 150, 10, 1, 5), ("size", "dx1", "std")),
    (("complex", -1, "message", 10, 10, 3, 5), ("real", *AGGREGATORS)),
]


def run(way, dtype, shape, parts):
    message, kinds, dx_reference, width, out, scalers, towers = shape
    generator = torch.Generator().manual_seed(width)

    def draw(*size):
        return torch.randn(*size, generator=generator).to(DEVICE, dtype)

    names = ("identity", "amplification", "attenuation")[:scalers]
    aggregators = ["mean", *(name for name in parts if name in AGGREGATORS), "av1"]
    conv = DGNConv(width, out, aggregators, names, 1.3, message, 3 if kinds else None, towers, dx_reference)
    layer = DGNLayer(conv, dropout=0.4 if "kept" in parts else 0.0).to(DEVICE, dtype)
    for parameter in layer.parameters():
        parameter.data = draw(*parameter.shape)
    edge_index, _ = random_graph(NODES, 4.8 / NODES, torch.Generator().manual_seed(1))
    graph = as_graph(edge_index.to(DEVICE), NODES)
    table = draw(graph.num_edges if kinds < 0 else kinds, 3).requires_grad_() if kinds else None
    row = torch.randint(max(kinds, 1), (graph.num_edges,), generator=generator).to(DEVICE)
    weights = conv.plan.compute_weights(draw(graph.num_edges, 1), graph)
    x = draw(NODES, width).requires_grad_()
    size = draw(NODES, 1).abs() if "size" in parts else None
    real = (draw(NODES, 1) > -0.5).to(dtype) if "real" in parts else None
    layer.dropout.generator = torch.Generator(DEVICE).manual_seed(3)
    edges = EdgeTable(table, row) if kinds > 0 else table
    y = way(layer, x, graph, weights, edges, size, real)
    weight = draw(NODES, out) * (1 if real is None else real)
    (y * weight).sum().backward()
    grads = {name: value.grad for name, value in layer.named_parameters()}
    grads |= {"x": x.grad} | ({} if table is None else {"table": table.grad})
    return {"out": y.detach() * (1 if real is None else real), **grads, **dict(layer.named_buffers())}


def whole(layer, *arguments):
    return layer._fused(*arguments)


def by_definition(layer, x, graph, weights, edges, size, real):
    layer.conv.backend = "reference"
    apart = layer.mix is None
    products = layer.conv.parts(x, graph, weights, edges)
    out = epilogue(products, layer.norm, Dropout(0.0), size, real, x if layer.residual and apart else None, relu=apart)
    if layer.dropout.p:
        mask = torch.empty(out.shape, device=DEVICE).bernoulli_(1 - layer.dropout.p, generator=layer.dropout.generator)
        out = out * mask / (1 - layer.dropout.p)
    return out if apart else layer._mixed(x, out)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize(("shape", "parts"), CASES)
def test_the_layer_equals_its_definition(shape, parts):
    got, expected = run(whole, torch.float32, shape, parts), run(by_definition, torch.float64, shape, parts)
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        scale = 1 + float(value.abs().max())
        difference = float((got[name].to(value.dtype) - value).abs().max())
        assert difference < 2e-5 * scale, f"{name}: {difference} of {scale}"


TOWERS = [case for case in CASES if case[0][-1] > 1 and max(case[0][3:5]) < NARROW * case[0][-1]]


def test_towers_joined_to_one_matrix_and_their_gradients():
    towers, scalers, aggregators, width, out = 3, 2, 4, 2, 5
    matrices = torch.randn(towers, scalers * out, aggregators * width, dtype=torch.float64, requires_grad=True)
    x = torch.randn(7, aggregators, towers, width, dtype=torch.float64)
    joined = block_diag(matrices, scalers, aggregators)[0]
    apart = torch.einsum("ntk,trk->ntr", x.transpose(1, 2).reshape(7, towers, -1), matrices)
    product = (x.flatten(1) @ joined.T).view(7, scalers, towers, out).transpose(1, 2)
    torch.testing.assert_close(product, apart.view(7, towers, scalers, out))
    assert torch.autograd.gradcheck(lambda blocks: block_diag(blocks, scalers, aggregators), matrices)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize(("shape", "parts"), TOWERS)
def test_narrow_towers_as_one_matrix_are_near_the_definition(shape, parts):
    """They are one where products are rounded to ten bits, so that only the size of a difference says something."""
    expected, before = run(by_definition, torch.float64, shape, parts), torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        got = run(whole, torch.float32, shape, parts)
    finally:
        torch.set_float32_matmul_precision(before)
    for name, value in expected.items():
        difference = float((got[name].double() - value.double()).norm())
        assert difference < 5e-2 * (1 + float(value.double().norm())), f"{name}: {difference}"


@pytest.mark.slow
def test_the_layer_in_the_interpreter():
    check_in_interpreter(__file__, "definition", len(CASES) + len(TOWERS))
