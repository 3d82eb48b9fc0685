"""Gated messages against their formula, edge by edge."""

from unittest import mock

import pytest
import torch

import dgn
from dgn.aggregation import Messages, aggregate
from dgn.nn import DGN, DGNConv, EdgeTable
from dgn.nn.blocks.gate import gate_messages
from dgn.testing import random_graph

AGGREGATORS = ["sum", "max", "dx1-signed"]
EDGES, N = random_graph(7, 0.5, torch.Generator().manual_seed(3))
LABEL = torch.randperm(EDGES.size(1), generator=torch.Generator().manual_seed(0))
EDGES = EDGES[:, LABEL]


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


X, FIELD, KINDS, TABLE = random(N, 4), random(EDGES.size(1), 1, seed=1), torch.arange(EDGES.size(1)) % 3, random(3, 2)


def make(**options):
    torch.manual_seed(0)
    return DGNConv(4, 4, AGGREGATORS, gate=True, **options).double()


def dense(conv, x, edge_attr, given=None):
    """Every message by itself, then every aggregator by itself."""
    width, towers = 4 // conv.towers, conv.towers

    def linear(module, *parts):
        """Tower by tower; a part of an edge goes to all of them."""
        rows = []
        for t in range(towers):
            own = slice(t * width, (t + 1) * width)
            joined = torch.cat([part[own] if len(part) == 4 else part for part in parts])
            rows.append(module.weight[t] @ joined + module.bias[t])
        return torch.cat(rows)

    def message(j, i, e):
        m = x[j] if conv.message is None else linear(conv.message, x[j], x[i], *e)
        return m * linear(conv.gate, x[j], x[i], *e).sigmoid()

    weight, found = dgn.derivative(FIELD, EDGES, N), []
    nothing = [] if edge_attr is None else [torch.zeros(2, dtype=torch.float64)]
    for i in range(N):
        into = [e for e in range(EDGES.size(1)) if EDGES[1, e] == i]
        m = [message(int(EDGES[0, e]), i, [] if edge_attr is None else [edge_attr[e]]) for e in into]
        own = x[i] if given == "authors" and conv.message is not None else message(i, i, nothing)
        along = sum(
            (weight.edge_weight[e] * each for e, each in zip(into, m, strict=True)), weight.self_weight[i] * own
        )
        found.append(torch.stack([sum(m), torch.stack(m).amax(0), along]))
    return torch.stack(found)


def aggregated(conv, edge_attr):
    """What a convolution aggregates: [N, A, C]."""
    seen = []
    with mock.patch("dgn.nn.conv.aggregate", lambda *given: seen.append(aggregate(*given)) or seen[-1]):
        conv(X, EDGES, FIELD, edge_attr)
    return seen[0]


KINDS_OF_CONV = {
    "simple": {},
    "simple, authors": {"derivative": "authors"},
    "complex": {"message": "complex"},
    "complex, edges": {"message": "complex", "edge_dim": 2},
    "complex, authors": {"message": "complex", "edge_dim": 2, "derivative": "authors"},
    "towers": {"message": "complex", "edge_dim": 2, "towers": 2},
}
every_conv = pytest.mark.parametrize("options", KINDS_OF_CONV.values(), ids=KINDS_OF_CONV)


@every_conv
@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_messages_are_multiplied_by_their_gates(options, backend):
    if backend == "cpu":
        pytest.importorskip("numba")
    conv = make(backend=backend, **options)
    edge_attr = TABLE[KINDS] if "edge_dim" in options else None
    expected = dense(conv, X, edge_attr, options.get("derivative"))
    torch.testing.assert_close(aggregated(conv, edge_attr), expected)
    if edge_attr is not None:
        torch.testing.assert_close(aggregated(conv, EdgeTable(TABLE, KINDS)), expected)


@every_conv
def test_gradients(options):
    conv = make(**options)
    table = TABLE.clone().requires_grad_() if "edge_dim" in options else None
    given = [X.clone().requires_grad_(), *([] if table is None else [table]), *conv.parameters()]

    def run(x, *rest):
        return conv(x, EDGES, FIELD, None if table is None else EdgeTable(rest[0], KINDS))

    assert torch.autograd.gradcheck(run, given)


def test_kernels_have_the_same_gradients_as_the_reference():
    pytest.importorskip("numba")
    found = []
    for backend in ("reference", "cpu"):
        conv = make(message="complex", edge_dim=2, backend=backend)
        table = TABLE.clone().requires_grad_()
        conv(X, EDGES, FIELD, EdgeTable(table, KINDS)).square().sum().backward()
        found.append([table.grad, *(parameter.grad for parameter in conv.parameters())])
    torch.testing.assert_close(*found)


def test_gates_far_from_0_let_everything_or_nothing_pass():
    graph, open_wide = dgn.as_graph(EDGES, N), 100 * torch.ones_like(X)
    messages = Messages(source=X)
    passed = gate_messages(messages, Messages(source=open_wide), graph)
    torch.testing.assert_close(passed.table, X[EDGES[0]])
    torch.testing.assert_close(passed.node, X)
    assert gate_messages(messages, Messages(source=-open_wide), graph).table.abs().max() < 1e-40


def test_a_message_module_is_gated_too():
    module = torch.nn.Linear(8, 4).double()
    conv = make(message=module)
    ends = torch.cat([X[EDGES[0]], X[EDGES[1]]], dim=1)
    gate = ends @ conv.gate.weight[0].T + conv.gate.bias[0]
    expected = torch.zeros(N, 4, dtype=torch.float64).index_add(0, EDGES[1], module(ends) * gate.sigmoid())
    torch.testing.assert_close(aggregated(conv, None)[:, 0], expected)


def test_it_is_off_by_default_and_reset_with_the_rest():
    assert DGNConv(4, 4).gate is None
    net = DGN(torch.nn.Linear(3, 8), 8, num_layers=2, aggregators=["mean"], gate=True)
    assert all("gate=True" in repr(layer.conv) and not layer.conv.may_be_whole for layer in net.layers)
    before = net.layers[0].conv.gate.ends.clone()
    net.reset_parameters()
    assert not torch.equal(net.layers[0].conv.gate.ends, before)
