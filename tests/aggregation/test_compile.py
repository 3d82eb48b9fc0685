"""Aggregation and convolution under torch.compile and torch.export."""

import copy
import os
import shutil

import pytest
import torch
from torch import nn

import dgn
from dgn.aggregation import Messages, aggregate, make_plan
from dgn.nn import DGN, DGNConv, NetworkSettings
from dgn.testing import complete, grid, path

NAMES = ["mean", "max", "std", "av1", "dx1"]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")  # within torch


@pytest.fixture(params=["reference", "cpu"])
def backend(request):
    if request.param == "cpu":
        pytest.importorskip("numba", reason="Numba is not installed")
    torch.compiler.reset()
    return request.param


def inputs(graph, channels=4, dtype=torch.float64):
    edge_index, num_nodes = graph
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(num_nodes, channels, dtype=dtype, generator=draw).requires_grad_()
    return x, edge_index, torch.randn(edge_index.size(1), 1, dtype=dtype, generator=draw)


def assert_same(ours, theirs, x):
    torch.testing.assert_close(ours, theirs)
    (gradient,), (expected,) = (torch.autograd.grad(out.square().sum(), x) for out in (ours, theirs))
    torch.testing.assert_close(gradient, expected)


def test_compiled_aggregation_is_the_same_at_every_size(backend):
    plan = make_plan(NAMES)

    def run(x, edge_index, field):
        graph = dgn.as_graph(edge_index, x.size(0))
        return aggregate(plan, Messages(x, x), plan.compute_weights(field, graph), graph, backend)

    compiled = torch.compile(run, fullgraph=True, dynamic=True, backend="aot_eager")
    for graph in (grid(3, 3), complete(5), path(8)):
        x, edge_index, field = inputs(graph)
        assert_same(compiled(x, edge_index, field), run(x, edge_index, field), x)


@pytest.mark.parametrize("message", ["simple", "complex"])
def test_compiled_convolution_is_the_same_at_every_size(backend, message):
    torch.manual_seed(0)
    scalers = ["identity", "attenuation"]
    conv = DGNConv(4, 6, NAMES, scalers, 1.2, message, backend=backend).double()
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    for graph in (grid(3, 3), complete(5)):
        x, edge_index, field = inputs(graph)
        assert_same(compiled(x, edge_index, edge_field=field), conv(x, edge_index, edge_field=field), x)


@pytest.mark.slow
def test_compiled_blocks_are_the_same():
    torch.compiler.reset()
    torch.manual_seed(0)
    blocks = {"ffn_expansion": 1, "virtual_node": True}
    kind = {"message": "complex", "edge_dim": 2, "num_layers": 2}
    net = DGN(
        nn.Linear(4, 16), NetworkSettings(hidden=16, aggregators=["mean", "dx1", "av1"], **kind, **blocks)
    ).double()
    compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
    x, edge_index, field = inputs(grid(3, 3))
    arguments = {
        "edge_field": field,
        "edge_attr": torch.cat([field, field.square()], dim=1),
        "batch": torch.zeros(len(x), dtype=torch.long),
        "num_graphs": 1,
    }
    assert_same(compiled(x, edge_index, **arguments), net(x, edge_index, **arguments), x)


@pytest.mark.slow
def test_inductor_compiles_a_convolution():
    pytest.importorskip("numba", reason="Numba is not installed")
    if not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))):
        pytest.skip("no C++ compiler")
    torch.compiler.reset()
    conv = DGNConv(4, 6, ["mean", "dx1"], message="complex", backend="cpu")
    compiled = torch.compile(conv, fullgraph=True, dynamic=True)
    x, edge_index, field = inputs(grid(3, 3), dtype=torch.float32)
    assert_same(compiled(x, edge_index, edge_field=field), conv(x, edge_index, edge_field=field), x)


def test_an_exported_convolution_serves_other_graphs(backend):
    conv = DGNConv(4, 6, NAMES, message="complex", backend=backend).double().eval()
    nodes, edges = torch.export.Dim("nodes", min=2), torch.export.Dim("edges", min=2)
    shapes = {"x": {0: nodes}, "edge_index": {1: edges}, "edge_field": {0: edges}}
    with torch.no_grad():
        x, edge_index, field = inputs(grid(3, 3))
        program = torch.export.export(conv, (x, edge_index), {"edge_field": field}, dynamic_shapes=shapes)
        for graph in (grid(3, 3), complete(6)):
            x, edge_index, field = inputs(graph)
            got = program.module()(x, edge_index, edge_field=field)
            torch.testing.assert_close(got, conv(x, edge_index, edge_field=field))


def test_an_exported_network_predicts_the_same(backend):
    torch.manual_seed(0)
    net = (
        DGN(
            nn.Linear(4, 8), NetworkSettings(hidden=8, num_layers=2, aggregators=NAMES), out_channels=2, backend=backend
        )
        .double()
        .eval()
    )
    with torch.no_grad():
        x, edge_index, field = inputs(grid(3, 3))
        exported = torch.export.export(net, (x, edge_index), {"edge_field": field}).module()
        got = exported(x, edge_index, edge_field=field)
        torch.testing.assert_close(got, net(x, edge_index, edge_field=field))


def test_a_layer_can_be_copied_and_saved(tmp_path):
    conv = DGNConv(4, 6, NAMES, message="complex").double()
    torch.save(conv.state_dict(), tmp_path / "conv.pt")
    other = copy.deepcopy(conv)
    other.reset_parameters()
    x, edge_index, field = inputs(path(4))
    expected = conv(x, edge_index, edge_field=field)
    assert not torch.equal(other(x, edge_index, edge_field=field), expected)
    other.load_state_dict(torch.load(tmp_path / "conv.pt"))
    assert torch.equal(other(x, edge_index, edge_field=field), expected)


@pytest.mark.filterwarnings(
    "ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning"
)  # torch 2.15 itself
@pytest.mark.parametrize("parts", [("source",), ("source", "target", "table"), ("table", "node")], ids="+".join)
def test_the_operator_passes_opcheck(parts):
    pytest.importorskip("numba", reason="Numba is not installed")
    # Signs are kept for absolute values only: columns without one would be compared as they happen to be.
    plan, graph = make_plan(["mean", "max", "min", "std", "dx1"]), dgn.as_graph(*grid(2, 3))
    field = inputs(grid(2, 3))[2]
    tensors = {part: torch.randn(graph.num_edges if part == "table" else 6, 4).double() for part in parts}
    messages = Messages(**{part: value.requires_grad_() for part, value in tensors.items()})
    edge, node = plan.compute_weights(field, graph)
    by_target, by_source = graph.by_target, graph.by_source
    layout = (*by_target, by_source.pointer, graph.target_to_source, None)
    codes, columns = list(plan.codes), list(plan.columns)
    arguments = (*messages, edge.requires_grad_(), node.requires_grad_(), *layout, codes, columns, True, True, "cpu")
    torch.library.opcheck(torch.ops.dgn.aggregate.default, arguments)


def test_walks_compile_without_a_break(backend):
    conv = DGNConv(4, 4, ["mean", "walks2of1-permuted"], backend=backend).double()
    x, edge_index, field = inputs(grid(3, 4))
    compiled = torch.compile(conv, fullgraph=True, dynamic=True, backend="aot_eager")
    assert_same(compiled(x, edge_index, edge_field=field), conv(x, edge_index, edge_field=field), x)
