"""What PyG users have in hand goes into a convolution, and what does not fit is refused with the remedy."""

import weakref

import pytest
import torch
from torch import nn
from torch_geometric import EdgeIndex

import dgn
from dgn.aggregation import Plan
from dgn.graph import memo
from dgn.nn import DGN, DGNConv, EdgeTable, NetworkSettings
from dgn.nn.inputs import read_bipartite
from dgn.testing import random_graph

EDGES, N = random_graph(7, 0.5, torch.Generator().manual_seed(3))
E = EDGES.size(1)
csr = pytest.mark.filterwarnings("ignore:Sparse:UserWarning")


def random(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def conv(**options):
    torch.manual_seed(0)
    return DGNConv(4, 6, **({"aggregators": ["mean", "max", "dx1"]} | options))


def as_csr(edge_index, field, shape):
    """The transposed adjacency, row i holding the edges into i, and the field in its order."""
    order = (edge_index[1] * shape[1] + edge_index[0]).argsort(stable=True)
    source, target = edge_index[:, order]
    pointer = torch.searchsorted(target, torch.arange(shape[0] + 1))
    ones = torch.ones(len(order))
    return torch.sparse_csr_tensor(pointer, source, ones, shape, check_invariants=True), field[order]


def test_an_edge_index_of_pyg():
    x, field = random(N, 4), random(E, 1, seed=1)
    special = EdgeIndex(EDGES, sparse_size=(N, N))
    got = conv()(x, special, edge_field=field)
    assert type(got) is torch.Tensor
    assert torch.equal(got, conv()(x, EDGES, edge_field=field))


@csr
def test_the_rows_of_a_csr_matrix_are_targets():
    source, target = torch.tensor([[0, 2, 2], [1, 1, 0]])  # directed: the transpose would differ
    edge_index, field = torch.stack([source, target]), random(3, 1)
    matrix, reordered = as_csr(edge_index, field, (3, 3))
    assert matrix.to_dense().tolist() == [[0, 0, 1], [1, 0, 1], [0, 0, 0]]
    torch.testing.assert_close(
        conv()(random(3, 4), matrix, edge_field=reordered), conv()(random(3, 4), edge_index, edge_field=field)
    )


@pytest.mark.parametrize("kind", [pytest.param("csr", marks=csr), "EdgeIndex", "Graph"])
def test_a_network_takes_what_a_convolution_takes(kind):
    torch.manual_seed(0)
    net = DGN(nn.Linear(4, 8), NetworkSettings(hidden=8, num_layers=2)).eval()
    x, field = random(N, 4), random(E, 1, seed=1)
    expected = net(x, EDGES, edge_field=field)
    if kind == "csr":
        edges, field = as_csr(EDGES, field, (N, N))
    else:
        edges = EdgeIndex(EDGES, sparse_size=(N, N)) if kind == "EdgeIndex" else dgn.as_graph(EDGES, N)
    torch.testing.assert_close(net(x, edges, edge_field=field), expected)


def count_calls(monkeypatch, module, name):
    calls, original = [], getattr(module, name)
    monkeypatch.setattr(module, name, lambda *arguments: calls.append(1) or original(*arguments))
    return calls


@pytest.mark.parametrize("as_given", [lambda edges: edges, lambda edges: dgn.as_graph(edges, N), EdgeIndex])
def test_layers_that_are_given_the_same_edges_sort_and_weigh_them_once(as_given, monkeypatch):
    sorts = count_calls(monkeypatch, dgn.graph.graph, "group_edges")
    weighings = count_calls(monkeypatch, Plan, "compute_weights")
    edges, field = as_given(EDGES.clone()), random(E, 1, seed=1)
    layers = [conv(backend="reference") for _ in range(3)]
    for layer in layers:
        assert torch.equal(layer(random(N, 4), edges, edge_field=field), layer(random(N, 4), edges, edge_field=field))
    assert (len(sorts), len(weighings)) == (1, 1)


def test_a_change_in_place_is_noticed():
    edges, field, layer = EDGES.clone(), random(E, 1, seed=1), conv(backend="reference")
    x = random(N, 4)
    first = layer(x, edges, edge_field=field)
    edges.copy_(edges.flip(0))
    turned = layer(x, edges, edge_field=field)
    assert torch.equal(turned, layer(x, edges.clone(), edge_field=field))
    assert not torch.equal(turned, first)
    field.mul_(torch.linspace(-1, 2, E)[:, None])
    assert torch.equal(layer(x, edges, edge_field=field), layer(x, edges, edge_field=field.clone()))
    assert not torch.equal(layer(x, edges, edge_field=field), turned)


def test_nothing_is_kept_of_edges_and_fields_that_are_gone():
    edges, field, layer = EDGES.clone(), random(E, 1, seed=1), conv(backend="reference")
    layer(random(N, 4), edges, edge_field=field)
    graph = weakref.ref(dgn.as_graph(edges, N))
    before = len(memo._BY_TENSOR)
    del edges
    assert graph() is None
    assert len(memo._BY_TENSOR) == before - 1


def test_a_field_that_is_learned_is_weighed_anew():
    field, layer, x = random(E, 1, seed=1).requires_grad_(), conv(backend="reference"), random(N, 4)
    for _ in range(2):
        field.grad = None
        layer(x, EDGES, edge_field=field).sum().backward()
        assert field.grad is not None


def test_edges_of_inference_mode_train_later():
    layer, x = conv(backend="reference"), random(N, 4)
    with torch.inference_mode():
        edges, field = EDGES.clone(), random(E, 1, seed=1)
        expected = layer(x, edges, edge_field=field)
    out = layer(x, edges, edge_field=field)
    out.sum().backward()
    assert torch.equal(out, expected)


@pytest.mark.parametrize("message", ["simple", "complex"])
def test_a_bipartite_graph_sends_from_sources_to_targets(message):
    layer = conv(message=message, aggregators=["mean", "max"])
    sources, targets = random(5, 4), random(3, 4, seed=1)
    edge_index = torch.tensor([[0, 4, 2, 1], [0, 0, 2, 0]])
    got = layer((sources, targets), edge_index)
    assert got.shape == (3, 6)
    m = sources[edge_index[0]]
    if message == "complex":
        linear = layer.message
        m = torch.cat([m, targets[edge_index[1]]], dim=1) @ linear.weight[0].T + linear.bias[0]
    rows = [m[edge_index[1] == i] for i in range(3)]
    both = [torch.cat([r.mean(0), r.amax(0)]) if len(r) else torch.zeros(8) for r in rows]
    joined = torch.cat(([targets] if message == "complex" else []) + [torch.stack(both)], dim=1)
    torch.testing.assert_close(got, joined @ layer.update.weight[0].T + layer.update.bias[0])


@csr
def test_a_bipartite_graph_in_csr():
    sources, targets = random(5, 4), random(3, 4, seed=1)
    edge_index, field = torch.tensor([[0, 4, 2, 1], [0, 0, 2, 0]]), random(4, 1)
    matrix, reordered = as_csr(edge_index, field, (3, 5))
    expected = conv()((sources, targets), edge_index, edge_field=field)
    torch.testing.assert_close(conv()((sources, targets), matrix, edge_field=reordered), expected)


@pytest.mark.parametrize("edge", [(5, 0), (0, 3), (-1, 0), (0, -1)])
def test_a_bipartite_edge_out_of_range_is_refused(edge):
    with pytest.raises(ValueError, match="edge_index: expected"):
        conv()((random(5, 4), random(3, 4)), torch.tensor([edge]).T, edge_field=random(1, 1))


def test_sources_of_another_width_are_refused():
    layer, ends = DGNConv((8, 6), 16, ["mean"]), torch.tensor([[0, 3], [0, 2]])
    with pytest.raises(ValueError, match=r"x: expected sources of width 8, got \[4, 6\]"):
        layer((random(4, 6), random(3, 6)), ends)


def test_weights_of_a_bipartite_call_are_refused():
    layer, ends = conv(), torch.tensor([[0, 3], [0, 2]])
    weights = layer.plan.compute_weights(random(2, 1), dgn.as_graph(ends, 4))
    with pytest.raises(ValueError, match=r"weights: expected None with \(sources, targets\)"):
        layer((random(4, 4), random(3, 4)), ends, weights=weights)


def test_a_gpu_is_asked_whether_targets_exist(monkeypatch):
    graph = dgn.as_graph(torch.tensor([[5, 0], [4, 0]]))  # 4 is the number of a source, and of no target
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)  # _assert_async raises at once on the CPU
    with pytest.raises(RuntimeError, match="edge_index: expected targets below 3, as x has; row 0 holds sources"):
        read_bipartite(graph, 6, 3)


REFUSED = {
    "aggregators: expected a list of one or more names": {"aggregators": []},
    "did you mean 'mean'": {"aggregators": ["maen"]},
    "scaler.*did you mean 'attenuation'": {"scalers": ["attenuatoin"]},
    "scalers: expected a list of one or more names, got .*'identity'": {"scalers": "identity"},
    r"scalers: expected a list of one or more names, got \[\]": {"scalers": []},
    "delta: expected a number above 0, .* got None; .*average_log_degree": {"scalers": ["identity", "attenuation"]},
    "delta: .* scalers amplification, got 0; ": {"scalers": ["amplification"], "delta": 0},
    "delta: .* got nan; ": {"scalers": ["amplification"], "delta": float("nan")},
    "message.*did you mean 'complex'": {"message": "complexe"},
    "dx_reference.*did you mean 'node'": {"dx_reference": "nodes"},
    "edge_dim: expected None with message='simple', got 3; use message='complex'": {"edge_dim": 3},
    "towers: expected a divisor of in_channels=4.*got 3": {"towers": 3, "message": "complex"},
    "towers: expected 1 with message='simple', got 2; use message='complex'": {"towers": 2},
    "towers: .*got 0": {"towers": 0},
}


@pytest.mark.parametrize(("message", "options"), REFUSED.items(), ids=range(len(REFUSED)))
def test_layers_that_cannot_be_are_refused(message, options):
    with pytest.raises(ValueError, match=message):
        conv(**options)


x, field = random(N, 4), random(E, 1)
FIELD, EDGE_DIM = {"edge_field": field}, {"message": "complex", "edge_dim": 2}
UNFIT = {
    "wrong width": ({}, (random(N, 5), EDGES), FIELD, r"x: expected .*\[N, 4\], got torch.float32 \[7, 5\]"),
    "one dimension": ({}, (random(4), EDGES), FIELD, r"x: expected .*\[N, 4\], got torch.float32 \[4\]"),
    "no field": ({}, (x, EDGES), {}, r"edge_field: expected shape \[\d+, K\].*got None; dgn.transforms.AddDirections adds one"),  # noqa: E501
    "few columns": ({"aggregators": ["dx2"]}, (x, EDGES), FIELD, "at least 2 columns.*pass k=2 to AddDirections"),
    "another field": ({}, (x, EDGES), {"edge_field": random(E - 1, 1)}, "one row per edge"),
    "unexpected edges": ({"message": "complex"}, (x, EDGES), FIELD | {"edge_attr": random(E, 2)}, "edge_attr: expected None, got"),  # noqa: E501
    "no edges": (EDGE_DIM, (x, EDGES), FIELD, "got None; edge features need"),
    "few edges": (EDGE_DIM, (x, EDGES), FIELD | {"edge_attr": random(3, 2)}, "got 3 rows of width 2"),
    "narrow edges": (EDGE_DIM, (x, EDGES), FIELD | {"edge_attr": random(E, 1)}, "edge_attr: expected"),
    "another graph": ({}, (x, dgn.as_graph(EDGES, 9)), FIELD, "num_nodes: expected 9, as the Graph has, got 7"),
    "missing node": ({}, (x[:3], EDGES), FIELD, "edge_index: expected nodes from 0 to below num_nodes=3"),
}  # fmt: skip


@pytest.mark.parametrize(("options", "arguments", "more", "message"), UNFIT.values(), ids=UNFIT)
def test_input_that_does_not_fit_is_refused(options, arguments, more, message):
    with pytest.raises(ValueError, match=message):
        conv(**options)(*arguments, **more)


@pytest.mark.parametrize("message", ["simple", "complex"])
@pytest.mark.parametrize("third", [random(E, 1), random(E, 3), None], ids=["field", "edge features", "None"])
def test_a_third_argument_by_position_is_refused(message, third):
    net = DGN(nn.Linear(4, 8), NetworkSettings(hidden=8, num_layers=1))
    for module in (conv(message=message), net):
        with pytest.raises(
            TypeError, match=r"expected x and edge_index by position.*write edge_field= for a field and"
        ):
            module(x, EDGES, third)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.bool, torch.int64])
def test_fields_of_other_numbers_are_refused(dtype):
    with pytest.raises(TypeError, match=f"edge_field: expected floating-point numbers .*, got {dtype}; convert it"):
        conv()(x, EDGES, edge_field=torch.ones(E, 1, dtype=dtype))


def test_a_field_of_other_edges_names_the_remedy():
    with pytest.raises(ValueError, match=r"got shape .*; apply transforms that change edges before AddDirections"):
        conv()(x, EDGES, edge_field=random(E + 1, 1))


def test_too_few_rows_of_a_table_are_refused():
    layer = conv(message="complex", edge_dim=2)
    with pytest.raises(ValueError, match="edge_attr"):
        layer(x, EDGES, edge_field=field, edge_attr=EdgeTable(random(2, 2), torch.zeros(E - 1).long()))


def test_a_message_module_of_the_wrong_width_is_refused():
    with pytest.raises(ValueError, match="message"):
        conv(message=nn.Linear(8, 5))(x, EDGES, edge_field=field)


def test_a_message_module_reads_tables_sorted_or_not():
    layer, edge_index = conv(message=nn.Linear(10, 4), edge_dim=2), EDGES[:, torch.randperm(E)]
    table = EdgeTable(random(3, 2), torch.arange(E) % 3)
    expected = layer(x, edge_index, edge_field=field, edge_attr=table.table[table.row])
    for features in (table, table.sort(dgn.as_graph(edge_index, N))):
        torch.testing.assert_close(layer(x, edge_index, edge_field=field, edge_attr=features), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32])
def test_rows_of_a_table_may_be_short_numbers(dtype):
    layer, table = conv(message="complex", edge_dim=3), random(5, 3, seed=1)
    rows, field = torch.arange(E) % 5, random(E, 1)
    out, expected = (
        layer(random(N, 4), EDGES, edge_field=field, edge_attr=EdgeTable(table, row)) for row in (rows.to(dtype), rows)
    )
    torch.testing.assert_close(out, expected)
