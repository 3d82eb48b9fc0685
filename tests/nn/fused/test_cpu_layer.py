"""The end of a layer, and a whole layer, as one function on the CPU against their parts."""

import pytest
import torch
from torch import nn

import dgn
from dgn.nn.edge_table import EdgeTable
from dgn.nn.fused.cpu_epilogue import finish_rows, is_fused
from dgn.nn.fused.cpu_layer import is_whole
from dgn.nn.layer import DGNLayer
from dgn.nn.norm import BatchNorm

pytest.importorskip("numba", reason="Numba is not installed")

THREE = ["identity", "amplification", "attenuation"]


def random(*shape, seed, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def norm_of(channels, dtype):
    norm = BatchNorm(channels).to(dtype)
    with torch.no_grad():
        norm.weight.copy_(random(channels, seed=1).abs() + 0.5)
        norm.bias.copy_(random(channels, seed=2))
    return norm


@pytest.mark.parametrize("sized", [True, False])
@pytest.mark.parametrize("relu", [True, False])
@pytest.mark.parametrize(("rows", "channels"), [(1000, 45), (129, 16), (2, 20)])
def test_the_end_of_a_layer_is_its_parts(rows, channels, relu, sized):
    size = random(rows, 1, seed=3).abs() if sized else None
    found = {}
    for name in ("fused", "parts"):
        norm = norm_of(channels, torch.float64)
        y = (3 * random(rows, channels, seed=4) + 100).requires_grad_()
        residual = random(rows, channels, seed=5).requires_grad_()
        if name == "fused":
            assert is_fused(y, norm, size, None)
            out = finish_rows(y, norm, size, residual, relu)
        else:
            plain = norm(y if size is None else y * size)
            out = residual + (plain.relu() if relu else plain)
        out.backward(random(rows, channels, seed=6))
        statistics = norm.running_mean, norm.running_var, norm.num_batches_tracked
        found[name] = [out, y.grad, residual.grad, norm.weight.grad, norm.bias.grad, *statistics]
    for mine, theirs in zip(found["fused"], found["parts"], strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-7, atol=1e-8)


def test_numbers_that_are_not_numbers_stay():
    y = torch.full((10, 16), torch.nan)
    assert finish_rows(y, BatchNorm(16), None, None, relu=True).isnan().all()


def ring(n):
    node = torch.arange(n)
    edges = torch.stack([node, node.roll(1)])
    leaves = torch.stack([node[::2], torch.arange(n, n + len(node[::2]))])
    edges = torch.cat([edges, edges.flip(0), leaves, leaves.flip(0)], dim=1)
    number = torch.cat([node // 20, node[::2] // 20])
    return dgn.as_graph(edges, batch=number)


def run_layer(backend, width, out, scalers, derivative, threads=1, dtype=torch.float64):
    torch.manual_seed(0)
    graph = ring(400)
    names = ["mean", "dx1", "max", "min"]
    conv = dgn.nn.DGNConv(width, out, names, scalers, 1.1, "complex", 3, derivative=derivative, backend=backend)
    layer = DGNLayer(conv).to(dtype)
    nn.init.normal_(layer.norm.bias)
    x = random(graph.num_nodes, width, seed=1, dtype=dtype).requires_grad_()
    table = random(4, 3, seed=2, dtype=dtype).requires_grad_()
    weights = conv.plan.compute_weights(random(graph.num_edges, 1, seed=3, dtype=dtype), graph)
    size = random(graph.num_nodes, 1, seed=4, dtype=dtype).abs()
    assert is_whole(x, conv, layer.norm, graph, weights, size, None) == (backend == "cpu")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        h = layer(x, graph, weights, EdgeTable(table, torch.arange(graph.num_edges) % 4), size)
        h = layer(h, graph, weights, EdgeTable(table, torch.arange(graph.num_edges) % 4), size) if out == width else h
        h.backward(random(*h.shape, seed=5, dtype=dtype))
    finally:
        torch.set_num_threads(before)
    return {"out": h.detach(), "x": x.grad, "table": table.grad, **{n: p.grad for n, p in layer.named_parameters()}}


@pytest.mark.parametrize("derivative", ["paper", "authors"])
@pytest.mark.parametrize(("width", "out", "scalers"), [(20, 20, THREE), (18, 33, THREE), (16, 16, ["identity"])])
def test_a_layer_is_its_parts(width, out, scalers, derivative):
    found, expected = (run_layer(backend, width, out, scalers, derivative) for backend in ("cpu", "reference"))
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-8, atol=1e-8, msg=lambda text, n=name: f"{n}: {text}")


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    for module in ("cpu_conv", "cpu_tail"):
        monkeypatch.setattr(f"dgn.nn.{module}.SMALLEST", 1)
    one, three = (run_layer("cpu", 45, 45, THREE, "authors", threads, torch.float32) for threads in (1, 3))
    assert all(torch.equal(one[name], three[name]) for name in one)


@pytest.mark.parametrize("changed", ["x", "size", "shift"])
@pytest.mark.parametrize("whole", [True, False])
def test_what_is_changed_in_place_is_noticed_on_the_way_back(changed, whole):
    graph, size = ring(20), torch.ones(30, 1)
    layer = DGNLayer(dgn.nn.DGNConv(16, 16, ["mean"], message="complex", backend="cpu"))
    x = torch.randn(30, 16, requires_grad=True) * 1
    out = layer(x, graph, size=size) if whole else finish_rows(x, layer.norm, size, None, relu=True)
    with torch.no_grad():
        {"x": x, "size": size, "shift": layer.norm.bias}[changed].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


@pytest.mark.parametrize("width", [16, 20])
def test_the_output_can_be_changed_in_place(width):
    graph, found = ring(20), []
    for backend in ("cpu", "reference"):
        torch.manual_seed(0)
        conv = dgn.nn.DGNConv(width, width, ["mean", "max"], message="complex", backend=backend)
        layers = [DGNLayer(conv).double() for _ in range(2)]
        x = random(30, width, seed=1).requires_grad_()
        h = layers[0](x, graph)
        h += x
        h = finish_rows(layers[1](h, graph), layers[1].norm, None, None, relu=False).mul_(2)
        found.append(torch.autograd.grad(h.exp().sum(), [x, *layers[0].parameters()]))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("options", [{}, {"scalers": THREE, "delta": 1.0, "message": "complex"}])
def test_the_reference_has_second_derivatives(options):
    torch.manual_seed(0)
    given = {"num_layers": 2, "aggregators": ["mean", "max"], "feed_forward": 1, "edge_dim": 16}
    net = dgn.nn.DGN(16, 16, backend="reference", **{"message": "complex", **given, **options}).double()
    graph = ring(200)
    edges, x, v, w = (random(rows, 16, seed=k) for k, rows in enumerate((graph.num_edges, 300, 300, 300)))

    def slope(x):
        x = x.requires_grad_()
        out = net(x, graph.edge_index, edge_attr=edges, batch=graph.batch).square().sum()
        return x, (torch.autograd.grad(out, x, create_graph=True)[0] * v).sum()

    found = (torch.autograd.grad(*slope(x)[::-1])[0] * w).sum()
    up, down = (slope(x.detach() + step * w)[1] for step in (1e-7, -1e-7))
    torch.testing.assert_close(found, (up - down) / 2e-7, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", ["convolution", "layer", "end", "update"])
def test_kernels_refuse_second_derivatives(kind):
    conv = dgn.nn.DGNConv(16, 16, ["mean"], THREE, 1.0, "complex" if kind != "update" else "simple", backend="cpu")
    graph, x = ring(200), torch.randn(300, 16, requires_grad=True)
    layer = DGNLayer(conv)
    if kind == "end":
        out = finish_rows(x, layer.norm, None, None, relu=True)
    else:
        out = layer(x, graph) if kind == "layer" else conv(x, graph)
    with pytest.raises(RuntimeError, match="second derivatives need backend='reference'"):
        torch.autograd.grad(out.sum(), x, create_graph=True)


def test_aggregation_refuses_second_derivatives():
    graph, x = ring(200), torch.randn(300, 16, requires_grad=True)
    out = dgn.nn.DGNConv(16, 16, ["mean", "max"], backend="cpu")(x, graph)
    (slope,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="no autograd formula"):
        torch.autograd.grad(slope.square().sum(), x)
