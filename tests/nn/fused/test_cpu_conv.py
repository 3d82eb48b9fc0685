"""The convolution as one function on the CPU against the same convolution from its parts."""

import pytest
import torch

import dgn
from dgn.nn.edge_table import EdgeTable

pytest.importorskip("numba", reason="Numba is not installed")

NAMES = ["mean", "dx1", "max", "min", "std", "av1"]
THREE = ["identity", "amplification", "attenuation"]


def ring_with_leaves(rings):
    """Nodes of in-degree 1, 2 and 3: rings whose every second node has a leaf."""
    ring = torch.arange(rings * 2).view(rings, 2)
    leaf = torch.arange(rings) + 2 * rings
    around = torch.stack([ring.flatten(), ring.flatten().roll(1)])
    branches = torch.stack([ring[:, 0], leaf])
    return dgn.as_graph(torch.cat([around, around.flip(0), branches, branches.flip(0)], dim=1))


def make(scalers, derivative, backend, names=NAMES, edge_dim=2, channels=5):
    torch.manual_seed(0)
    conv = dgn.nn.DGNConv(channels, 7, names, scalers, 1.2, "complex", edge_dim, derivative=derivative, backend=backend)
    return conv.double()


def run(conv, graph, edges):
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(graph.num_nodes, conv.in_channels, generator=draw).double().requires_grad_()
    field = torch.randn(graph.num_edges, 1, generator=draw).double()
    features = torch.randn(3 if edges == "kinds" else graph.num_edges, 2, generator=draw).double().requires_grad_()
    given = EdgeTable(features, torch.arange(graph.num_edges) % 3) if edges == "kinds" else features
    weights = conv.plan.compute_weights(field, graph)
    out = conv(x, graph, weights=weights, edge_attr=given if edges else None)
    slope = torch.randn(out.shape, generator=draw).double()
    leaves = {"x": x, **({"edges": features} if edges else {}), **dict(conv.named_parameters())}
    return {"out": out, **dict(zip(leaves, torch.autograd.grad(out, list(leaves.values()), slope), strict=True))}


@pytest.mark.parametrize("edges", ["kinds", "each", None])
@pytest.mark.parametrize("derivative", ["paper", "authors"])
@pytest.mark.parametrize("scalers", [THREE, ["identity"]], ids=["three", "one"])
def test_one_function_is_its_parts(scalers, derivative, edges):
    graph = ring_with_leaves(100)
    dim = None if edges is None else 2
    whole, parts = (make(scalers, derivative, backend, edge_dim=dim) for backend in ("cpu", "reference"))
    weights = whole.plan.compute_weights(torch.zeros(graph.num_edges, 1).double(), graph)
    x = torch.zeros(graph.num_nodes, 5).double()
    assert whole.is_whole(x, graph, weights)
    assert not parts.is_whole(x, graph, weights)
    found, expected = run(whole, graph, edges), run(parts, graph, edges)
    for name, value in expected.items():
        torch.testing.assert_close(
            found[name], value, rtol=1e-9, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )


@pytest.mark.parametrize("backend", ["cpu", "reference"])
def test_numbers_of_another_precision_than_the_parameters_are_refused(backend):
    graph, conv = ring_with_leaves(100), make(["identity"], "paper", backend, edge_dim=None)
    with pytest.raises(RuntimeError, match="dtype"):
        conv(torch.zeros(graph.num_nodes, 5), graph, torch.zeros(graph.num_edges, 1))


def test_a_graph_without_nodes():
    graph = dgn.as_graph(torch.zeros(2, 0).long(), 0)
    found = run(make(THREE, "paper", "cpu", edge_dim=None), graph, None)
    assert found.pop("out").shape == (0, 7)
    assert not any(gradient.any() for gradient in found.values())


def test_gradcheck():
    graph = ring_with_leaves(64)
    conv = make(THREE, "authors", "cpu", ["mean", "dx1", "max"], None, 2)
    field = torch.randn(graph.num_edges, 1, generator=torch.Generator().manual_seed(1)).double()
    weights = conv.plan.compute_weights(field, graph)
    x = torch.randn(graph.num_nodes, 2, generator=torch.Generator().manual_seed(2)).double().requires_grad_()
    assert torch.autograd.gradcheck(lambda x: conv(x, graph, weights=weights), x, fast_mode=True)


def test_a_learned_field_takes_the_parts():
    graph = ring_with_leaves(64)
    conv = make(THREE, "authors", "cpu", edge_dim=None)
    field = torch.randn(graph.num_edges, 1).double().requires_grad_()
    weights = conv.plan.compute_weights(field, graph)
    x = torch.randn(graph.num_nodes, 5).double()
    assert not conv.is_whole(x, graph, weights)
    conv(x, graph, weights=weights).sum().backward()
    assert field.grad is not None
    assert field.grad.abs().max() > 0


@pytest.mark.parametrize("changed", ["x", "edges", "weights"])
def test_what_is_changed_in_place_is_noticed_on_the_way_back(changed):
    graph = ring_with_leaves(10)
    conv = make(["identity"], "paper", "cpu", channels=16)
    field = torch.randn(graph.num_edges, 1).double()
    given = {
        "x": torch.randn(graph.num_nodes, 16, requires_grad=True).double(),
        "edges": torch.randn(graph.num_edges, 2).double(),
        "weights": conv.plan.compute_weights(field, graph),
    }
    out = conv(given["x"], graph, weights=given["weights"], edge_attr=given["edges"])
    with torch.no_grad():
        (given["weights"].edge if changed == "weights" else given[changed]).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_the_output_can_be_changed_in_place():
    graph, found = ring_with_leaves(10), []
    for backend in ("cpu", "reference"):
        conv = make(["identity"], "paper", backend, ["mean", "max"], None)
        x = torch.randn(graph.num_nodes, 5, generator=torch.Generator().manual_seed(1)).double().requires_grad_()
        out = conv(x, graph)
        out += x[:, :1]
        out.relu_()
        found.append(torch.autograd.grad(out.square().sum(), [x, *conv.parameters()]))
    for mine, theirs in zip(*found, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-9)
