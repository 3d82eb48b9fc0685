"""Layers in the published order of operations, virtual nodes and readouts."""

import pytest
import torch
from torch.nn import functional

import dgn
from dgn.nn import DGNConv, DGNLayer, VirtualNode, pool
from dgn.testing import complete

GRAPH = dgn.as_graph(*complete(6))
NO_EDGES = torch.empty(2, 0, dtype=torch.long)


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def make(in_channels=4, out_channels=4, towers=1, **options):
    torch.manual_seed(0)
    conv = DGNConv(in_channels, out_channels, ["mean", "max"], message="complex", towers=towers)
    layer = DGNLayer(conv, **options)
    if options.get("batch_norm", True):
        torch.nn.init.normal_(layer.norm.weight)
        torch.nn.init.normal_(layer.norm.bias)
    return layer


def normalized(layer, y):
    return functional.batch_norm(y, None, None, layer.norm.weight, layer.norm.bias, training=True)


def seeded(function, *arguments, **options):
    torch.manual_seed(7)
    return function(*arguments, **options)


@pytest.mark.parametrize("size", [None, torch.full((6, 1), 6**-0.5)], ids=["no size norm", "size norm"])
@pytest.mark.parametrize("out_channels", [4, 2])
def test_one_tower(size, out_channels):
    layer, x = make(4, out_channels, dropout=0.5), random(6, 4)
    y = layer.conv(x, GRAPH) * (1 if size is None else size)
    y = normalized(layer, y).relu()
    y = x + y if out_channels == 4 else y  # no residual where the widths differ
    expected = seeded(functional.dropout, y, 0.5)
    torch.testing.assert_close(seeded(layer, x, GRAPH, graph_norm=size), expected)


@pytest.mark.parametrize("size", [None, torch.full((6, 1), 6**-0.5)], ids=["no size norm", "size norm"])
@pytest.mark.parametrize("out_channels", [4, 2])
def test_towers_are_mixed_after_norm_and_dropout(size, out_channels):
    layer, x = make(4, out_channels, towers=2, dropout=0.5), random(6, 4)
    y = layer.conv(x, GRAPH) * (1 if size is None else size)
    y = seeded(functional.dropout, normalized(layer, y), 0.5)
    y = functional.leaky_relu(layer.mix(y), 0.01)
    expected = x + y if out_channels == 4 else y
    torch.testing.assert_close(seeded(layer, x, GRAPH, graph_norm=size), expected)


@pytest.mark.parametrize("towers", [1, 2])
def test_norm_and_residual_can_be_left_out(towers):
    layer, x = make(towers=towers, batch_norm=False, residual=False), random(6, 4)
    y = layer.conv(x, GRAPH)
    expected = y.relu() if towers == 1 else functional.leaky_relu(layer.mix(y), 0.01)
    assert torch.equal(layer(x, GRAPH), expected)


def test_a_layer_takes_edge_index_as_it_takes_a_graph():
    layer, x = make(), random(6, 4)
    assert torch.equal(layer(x, GRAPH.edge_index), layer(x, GRAPH))


@pytest.mark.parametrize("norm", [torch.nn.Identity(), torch.nn.LayerNorm(16)], ids=["none", "layer norm"])
@pytest.mark.parametrize("nodes", [6, 600], ids=["small", "kernels"])
def test_another_norm_may_be_put_in_place_of_batch_norm(norm, nodes):
    layer, x = make(16, 16), random(nodes, 16)
    layer.norm = norm
    graph = dgn.as_graph(torch.randint(nodes, (2, 8 * nodes), generator=torch.Generator().manual_seed(1)), nodes)
    torch.testing.assert_close(layer(x, graph), x + norm(layer.conv(x, graph)).relu())


def test_reset_reaches_every_part_of_a_layer():
    layer = make(towers=2)
    before = {name: parameter.clone() for name, parameter in layer.named_parameters()}
    layer.reset_parameters()
    assert not any(torch.equal(before[name], parameter) for name, parameter in layer.named_parameters())
    assert torch.equal(layer.norm.weight, torch.ones(4))


def test_a_virtual_node_adds_its_new_state_to_its_own_nodes():
    torch.manual_seed(0)
    node, batch = VirtualNode(4), torch.tensor([0, 0, 2, 2, 2])  # graph 1 has no nodes
    x, state = random(5, 4), random(3, 4, seed=1)
    gathered = torch.stack([state[0] + x[:2].sum(0), state[1], state[2] + x[2:].sum(0)])
    expected = state + normalized(node, node.linear(gathered)).relu()
    got_x, got_state = node(x, dgn.as_graph(NO_EDGES, 5, batch), state)
    torch.testing.assert_close(got_state, expected)
    torch.testing.assert_close(got_x, x + expected[batch])


GRAPHS = dgn.as_graph(NO_EDGES, 5, torch.tensor([0, 0, 0, 2, 2]), 4)  # graph 1 and graph 3 have no nodes
POTENTIAL = random(5, 2, seed=3)


def naive_readout(readout, rows, potential):
    if not len(rows):
        return torch.zeros(6 if readout in ("directional", "sum-mean") else 3)
    projected = (potential[:, :1] * rows).sum(0).abs() / potential[:, 0].abs().sum()
    return {
        "mean": rows.mean(0),
        "sum": rows.sum(0),
        "sum-mean": torch.cat([rows.sum(0), rows.mean(0)]),
        "max": rows.amax(0),
        "directional": torch.cat([projected, rows.mean(0)]),
    }[readout]


@pytest.mark.parametrize("readout", ["mean", "sum", "sum-mean", "max", "directional"])
def test_readouts_combine_each_graph_and_give_0_for_none(readout):
    x = random(5, 3) - 2  # below 0: an empty maximum of 0 must not win
    expected = [naive_readout(readout, x[g == GRAPHS.batch], POTENTIAL[g == GRAPHS.batch]) for g in range(4)]
    torch.testing.assert_close(pool(readout, x, GRAPHS, POTENTIAL), torch.stack(expected))


def test_the_directional_readout_is_blind_to_the_sign_of_the_potential():
    x = random(5, 3)
    both = [pool("directional", x, GRAPHS, sign * POTENTIAL) for sign in (1, -1)]
    assert torch.equal(*both)
    assert torch.equal(pool("directional", x, GRAPHS, 0 * POTENTIAL)[:, :3], torch.zeros(4, 3))


def test_the_readout_of_nodes_keeps_them():
    x = random(5, 3)
    assert torch.equal(pool("nodes", x, GRAPHS), x)


def test_the_directional_readout_needs_a_potential():
    with pytest.raises(ValueError, match=r"potential: expected \[N, K\].*AddDirections"):
        pool("directional", random(5, 3), GRAPHS)
