"""One battery for all kernels: reference, CPU and Triton give the definition, forward and backward."""

from itertools import combinations

import pytest
import torch

import dgn
from dgn.aggregation import Messages, aggregate, make_plan
from dgn.graph import Graph, Layout
from dgn.testing import complete, disjoint_union, edge_cases, path, random_graph

ISOTROPIC = ["mean", "sum", "max", "min", "std", "var"]
DIRECTIONAL = [
    "av1", "dx1", "dx1-signed", "av1-center", "dx2-center", "av1-pad", "dx1-pad", "dx2-pad-signed", "fwd1", "bwd2",
    "av2-hard", "dx1-hard", "fwd1-hard", "av1-soft2", "dx2-soft0.5", "bwd1-soft3", "dx1-center-hard",
    "dx1-center-soft2-signed", "dx1-group2", "dx2-group2", "av1-group2",
    "av1-global", "dx2-global", "dx1-global-signed", "av2-split", "dx1-split", "dx1-split-soft2-signed",
]  # fmt: skip
EVERY = [*ISOTROPIC, *DIRECTIONAL]
MIXED = ["mean", "max", "std", "av1", "dx2-signed", "dx1"]
RANDOM = random_graph(6, 0.7, torch.Generator().manual_seed(1))
PARTS = [parts for n in (1, 2, 3) for parts in combinations(("source", "target", "table"), n)]
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def hub(degree):
    """A path of seven nodes, and so many further edges into node 0."""
    into = torch.randint(1, 7, (degree - 1,), generator=torch.Generator().manual_seed(0))
    return torch.cat([torch.stack([into, torch.zeros_like(into)]), path(7)[0]], dim=1), 7


@both_dtypes
def test_all_aggregators_in_one_pass(kernel, dtype, make_case, assert_defined):
    assert_defined(make_case(EVERY, RANDOM, ("source", "target", "table"), of_field=True), kernel, dtype)


@pytest.mark.parametrize("name", EVERY)
def test_each_aggregator_alone(kernel, name, make_case, assert_defined):
    assert_defined(make_case([name], path(4)), kernel)


@pytest.mark.parametrize("self_part", [(), ("node",)], ids=["default self message", "node"])
@pytest.mark.parametrize("parts", PARTS, ids="+".join)
def test_all_parts_of_messages(kernel, parts, self_part, make_case, assert_defined):
    names = ["max", "var", "dx1-signed"] if self_part or parts != ("table",) else ["max", "var", "av1"]
    assert_defined(make_case(names, path(4), parts + self_part, of_field=True), kernel)


@both_dtypes
@pytest.mark.parametrize("parts", [("table",), ("source", "table")], ids="+".join)
def test_rows_of_a_table_are_edge_types(kernel, parts, dtype, make_case, assert_defined):
    assert_defined(make_case(["sum", "min", "std", "av1"], RANDOM, parts, rows=3), kernel, dtype)


@pytest.mark.parametrize("graph", [RANDOM, *edge_cases().values()], ids=["random", *edge_cases()])
def test_features_alone_in_float32(kernel, graph, make_case, assert_defined):
    assert_defined(make_case(EVERY if graph is RANDOM else MIXED, graph, ("source",)), kernel, torch.float32)


@pytest.mark.parametrize("graph", edge_cases().values(), ids=edge_cases())
def test_unusual_graphs(kernel, graph, make_case, assert_defined):
    assert_defined(make_case(MIXED, graph, ("source", "target", "table")), kernel)


@pytest.mark.parametrize("channels", [1, 2, 3, 47, 130, 300])
def test_any_number_of_channels(kernel, channels, make_case, assert_defined):
    assert_defined(make_case(MIXED, path(3), ("source", "target"), channels), kernel, torch.float32)


@pytest.mark.parametrize("directions", [0, 1, 3, 8])
def test_any_number_of_directions(kernel, directions, make_case, assert_defined):
    names = ["mean", *(f"{operator}{k + 1}" for k in range(directions) for operator in ("av", "dx"))]
    assert_defined(make_case(names, path(4), directions=directions), kernel)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_half_precision(kernel, dtype, make_case, assert_defined):
    if not kernel.half_precision:
        pytest.skip("the CPU kernel has float32 and float64; the reference serves the rest")
    names = ["mean", "sum", "max", "min", "std", "var", "av1", "dx2-signed", "dx1-group2"]
    assert_defined(make_case(names, complete(4)), kernel, dtype, torch.float32)


def test_half_precision_adds_up_in_single_precision(kernel, make_case):
    if kernel.backend != "triton":
        pytest.skip("only the GPU kernel has its own accumulator for half precision")
    case = make_case(["sum", "av1"], hub(kernel.largest_degree)).to(torch.bfloat16, kernel.device, torch.float32)
    case = case._replace(parts={"source": torch.ones_like(case.parts["source"])})
    centre = case.run("triton")[0]
    assert (centre[0].double() / kernel.largest_degree - 1).abs().max() <= 2**-8  # in bfloat16, 256 + 1 is 256
    assert (centre[1].double() - 1).abs().max() <= 2**-8


def test_the_gradient_of_a_norm_of_0_is_0(kernel, make_case):
    case = make_case(["dx1-group2", "mean"], path(4)).to(torch.float32, kernel.device)
    constant = torch.ones(4, 3, device=kernel.device, requires_grad=True)
    out = case._replace(parts={"source": constant}).run(kernel.backend)
    assert not out[:, 0].any()
    (gradient,) = torch.autograd.grad(out[:, 0].sum(), constant)
    assert not gradient.any()


@pytest.mark.parametrize("name", ["sum", "max", "var", "av1", "dx1-signed"])
def test_gradcheck(kernel, name, make_case):
    case = make_case([name, "mean"], path(3), ("source", "target", "table"), channels=2, directions=1, of_field=True)
    case = case.to(torch.float64, kernel.device)
    names = tuple(case.parts)
    leaves = [leaf for leaf in case.leaves() if leaf is not case.field or name in ("av1", "dx1-signed")]

    def run(*tensors):
        parts = dict(zip(names, tensors, strict=False))
        return case._replace(parts=parts, field=tensors[-1] if len(tensors) > 3 else case.field).run(kernel.backend)

    assert torch.autograd.gradcheck(run, leaves, fast_mode=True)


@both_dtypes
def test_non_contiguous_input(kernel, dtype, make_case):
    case = make_case(MIXED, RANDOM, ("source", "target", "table")).to(dtype, kernel.device)
    wide = {name: part.detach().repeat_interleave(2, dim=1)[:, ::2] for name, part in case.parts.items()}
    assert not any(part.is_contiguous() for part in wide.values())
    leaves = {name: part.requires_grad_() for name, part in wide.items()}
    got = case._replace(parts=leaves).run(kernel.backend)
    assert torch.equal(got, case.run(kernel.backend))
    slope = torch.randn(3, 6, 6, generator=torch.Generator().manual_seed(1)).to(got)
    ours = torch.autograd.grad(got, list(leaves.values()), slope.permute(2, 1, 0))
    theirs = torch.autograd.grad(case.run(kernel.backend), case.leaves(), slope.permute(2, 1, 0).contiguous())
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


@both_dtypes
def test_one_node_of_high_degree(kernel, dtype, make_case, assert_defined):
    names = ["mean", "max", "var", "av1", "dx1-signed"]
    assert_defined(make_case(names, hub(kernel.largest_degree), ("source", "table")), kernel, dtype)


def test_nodes_without_neighbours_give_0(kernel, make_case):
    case = make_case(EVERY, disjoint_union(path(1), path(3), path(1))[:2], ("source", "target")).to(
        torch.float32, kernel.device
    )
    out = case.run(kernel.backend)
    assert not out[[0, 4]].any()
    for gradient in torch.autograd.grad(out.sum(), case.leaves()):
        assert not gradient[[0, 4]].any()
        assert gradient[1:4].any()


@pytest.mark.parametrize("gradients", [True, False], ids=["with gradients", "without"])
@pytest.mark.parametrize("place", [0, 2, 4])
def test_nan_in_a_message_propagates(kernel, place, gradients):
    graph = dgn.as_graph(torch.tensor([[1, 2, 3, 4, 5, 1], [0, 0, 0, 0, 0, 2]], device=kernel.device), 6)
    plan = make_plan(["sum", "mean", "max", "min", "var", "std", "dx1"])
    field = torch.ones(6, 1, device=kernel.device)
    source = torch.arange(6.0, device=kernel.device)[:, None].repeat(1, 3)
    source[1 + place, 1] = torch.nan
    messages = Messages(source=source.requires_grad_(gradients))
    out = aggregate(plan, messages, plan.compute_weights(field, graph), graph, kernel.backend)
    assert out[0, :, 1].isnan().all()
    assert not out[0, :, [0, 2]].isnan().any()
    assert out[2, :, 1].isnan().any() == (place == 0)


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("parts", [("table",), ("source", "table")], ids="+".join)
def test_of_equal_messages_the_first_edge_gets_the_gradient(kernel, name, parts):
    edge_index = torch.tensor([[3, 1, 2, 1, 0, 2, 1], [0, 1, 0, 0, 1, 1, 0]], device=kernel.device)
    graph, plan = dgn.as_graph(edge_index, 4), make_plan([name])
    table = torch.zeros(7, 2, device=kernel.device)
    table[2] = torch.tensor([0.0, -1.0 if name == "min" else 1.0])  # channel 1 of node 0 has one extreme
    leaves = {"table": table.requires_grad_()}
    if "source" in parts:
        leaves["source"] = torch.zeros(4, 2, device=kernel.device, requires_grad=True)
    out = aggregate(plan, Messages(**leaves), plan.compute_weights(None, graph), graph, kernel.backend)
    gradients = dict(zip(leaves, torch.autograd.grad(out.sum(), list(leaves.values())), strict=True))
    expected = torch.zeros(7, 2)
    expected[0, 0] = expected[2, 1] = expected[1] = 1  # first edges into node 0 (twice) and into node 1
    assert torch.equal(gradients["table"].cpu(), expected)
    if "source" in parts:
        assert gradients["source"].tolist() == [[0, 0], [1, 1], [0, 1], [1, 0]]


@both_dtypes
@pytest.mark.parametrize("name", ["var", "std"])
def test_a_common_offset_does_not_enter_the_variance(kernel, name, dtype, make_case, naive):
    case = make_case([name], RANDOM).to(dtype, kernel.device)
    moved = {"source": (case.parts["source"].detach() + 1e4).requires_grad_()}
    exact = {"source": moved["source"].detach().double().cpu().requires_grad_()}
    out = case._replace(parts=moved).run(kernel.backend)
    expected = naive(case.to(torch.float64)._replace(parts=exact))
    torch.testing.assert_close(out.cpu().double(), expected, rtol=2e-4, atol=1e-6)
    ours, theirs = torch.autograd.grad(out.sum(), moved["source"]), torch.autograd.grad(expected.sum(), exact["source"])
    # The gradient is a multiple of m - mean, and a mean near 1e4 is rounded to 5e-4 in float32, to 1e-12 in float64.
    torch.testing.assert_close(ours[0].cpu().double(), theirs[0], rtol=0, atol=5e-3 if dtype == torch.float32 else 1e-8)


@both_dtypes
def test_results_are_bitwise_reproducible(kernel, dtype, make_case):
    size = 12 if kernel.largest_degree < 1000 else 150
    graph = random_graph(size, 0.5, torch.Generator().manual_seed(0))
    case = make_case(MIXED, graph, ("source", "target", "table"), 33).to(dtype, kernel.device)
    plan = make_plan(case.names)
    weights = plan.compute_weights(case.field, case.graph)
    leaves = [*case.leaves(), *(weight.requires_grad_() for weight in weights)]
    results = []
    for _ in range(5):
        out = aggregate(plan, Messages(**case.parts), weights, case.graph, kernel.backend)
        results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
    for again in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], again, strict=True))


@both_dtypes
def test_field_weights_are_bitwise_reproducible(kernel, dtype, make_case):
    graph = random_graph(150, 0.5, torch.Generator().manual_seed(0))
    results = []
    for _ in range(5):
        case = make_case(["av1", "dx2", "av1-center", "dx2-soft2"], graph, of_field=True).to(dtype, kernel.device)
        edge, node = make_plan(case.names).compute_weights(case.field, case.graph)
        results.append([edge, node, *torch.autograd.grad(edge.square().sum() + node.square().sum(), case.field)])
    for again in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], again, strict=True))


def test_without_gradients_the_values_are_the_same(kernel, make_case):
    case = make_case(EVERY, RANDOM, ("source", "table")).to(torch.float32, kernel.device)
    with torch.no_grad():
        without = case.run(kernel.backend)
    assert not without.requires_grad
    assert torch.equal(without, case.run(kernel.backend))


def test_int64_layouts_give_the_same_result(kernel, make_case):
    case = make_case(MIXED, RANDOM, ("source", "target", "table")).to(torch.float32, kernel.device)
    wide = Graph(case.graph.edge_index, case.graph.num_nodes)
    for layout in ("by_target", "by_source"):  # as if there were 2^31 edges
        narrow = getattr(wide, layout)
        assert narrow.neighbor.dtype == torch.int32
        setattr(wide.parts, layout, Layout(narrow.pointer, narrow.order.long(), narrow.neighbor.long()))
    wide.parts.target_to_source = wide.parts.edge_to_source = None
    assert wide.target_to_source.dtype == torch.int64
    results = []
    for graph in (case.graph, wide):
        out = case._replace(graph=graph).run(kernel.backend)
        results.append([out, *torch.autograd.grad(out.square().sum(), case.leaves())])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_a_derivative_of_edge_messages_alone_is_refused(kernel, make_case):
    case = make_case(["dx1"], path(3), ("table",)).to(torch.float32, kernel.device)
    with pytest.raises(ValueError, match="pass node="):
        case.run(kernel.backend)


@pytest.mark.parametrize("row", [-1, 3])
def test_rows_outside_the_table_are_refused(kernel, row):
    if str(kernel.device) != "cpu":
        pytest.skip("on a GPU it would wait for all work before")
    graph, plan, table = dgn.as_graph(path(3)[0]), make_plan(["sum"]), torch.ones(3, 16)
    messages = Messages(table=table, row=torch.tensor([0, 1, 2, row]))
    with pytest.raises(ValueError, match=f"row: expected rows of the table, 0 to 2, got {min(row, 0)} to"):
        aggregate(plan, messages, plan.compute_weights(None, graph), graph, kernel.backend)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def test_more_than_two_billion_elements_in_rows(dtype):
    num_nodes, channels = 18_000_000, 128
    assert num_nodes * channels > 2**31
    last = torch.tensor([num_nodes - 3, num_nodes - 2, num_nodes - 1], device="cuda")
    edge_index = torch.stack([last[[0, 2, 1]], last[[1, 1, 2]]])
    graph, plan = dgn.as_graph(edge_index, num_nodes), make_plan(["max", "dx1-signed"])
    weights = plan.compute_weights(torch.tensor([[1.0], [-3.0], [2.0]], device="cuda"), graph)
    x = torch.zeros(num_nodes, channels, dtype=dtype, device="cuda")
    x[last] = torch.tensor([[1.0], [2.0], [4.0]], dtype=dtype, device="cuda")
    x.requires_grad_()
    out = aggregate(plan, Messages(x), weights, graph, "triton")
    expected = torch.tensor([[0.0, 0.0], [4.0, 0.25 - 3.0 + 1.0], [2.0, -2.0]], device="cuda", dtype=dtype)
    assert torch.equal(out[last], expected[:, :, None].expand(-1, -1, channels))
    assert not out[: num_nodes - 3].any()
    (gradient,) = torch.autograd.grad(out.sum(), x)
    expected = torch.tensor([0.25, 0.5 + 1 + 1, 1 - 0.75 - 1], device="cuda", dtype=dtype)
    assert torch.equal(gradient[last], expected[:, None].expand(-1, channels))
    assert not gradient[: num_nodes - 3].any()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("parts", [("table",), ("source", "table")], ids="+".join)
def test_more_than_two_billion_elements_in_edges(parts):
    num_nodes, num_edges, channels = 1000, 17_000_000, 128
    assert num_edges * channels > 2**31
    edge = torch.arange(num_edges, device="cuda")
    graph = dgn.as_graph(torch.stack([edge % num_nodes, edge * num_nodes // num_edges]), num_nodes)
    plan = make_plan(["max"])
    leaves = {"table": torch.zeros(num_edges, channels, dtype=torch.bfloat16, device="cuda")}
    leaves["table"][-1] = 1.0
    if "source" in parts:
        leaves["source"] = torch.zeros(num_nodes, channels, dtype=torch.bfloat16, device="cuda")
    leaves = {name: leaf.requires_grad_() for name, leaf in leaves.items()}
    out = aggregate(plan, Messages(**leaves), plan.compute_weights(None, graph), graph, "triton")
    assert out[-1].eq(1).all()
    assert not out[:-1].any()
    gradient, *of_source = torch.autograd.grad(out.sum(), list(leaves.values()))
    assert gradient[-1].eq(1).all()
    firsts = torch.arange(num_nodes - 1, device="cuda") * (num_edges // num_nodes)
    assert gradient[firsts].eq(1).all()
    assert int(gradient.any(dim=1).sum()) == num_nodes
    if of_source:
        chosen = torch.cat([firsts % num_nodes, edge[-1:] % num_nodes]).bincount(minlength=num_nodes)
        assert torch.equal(of_source[0], chosen.to(of_source[0])[:, None].expand(-1, channels))
