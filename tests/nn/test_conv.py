"""The convolution against the one that everybody would write: E x d messages, scaled copies, towers in a loop."""

import pytest
import torch
from torch import nn

import dgn
from dgn.nn import CategoryEncoder, DGNConv, EdgeTable
from dgn.testing import assert_permutation_equivariant, complete, disjoint_union, edge_cases, random_graph, star
from tests.small_graphs import random

NAMES = ["mean", "max", "std", "av1", "dx1", "dx2-signed"]
EVERY_SCALER = ["identity", "amplification", "attenuation"]
RANDOM = random_graph(9, 0.4, torch.Generator().manual_seed(0))
WITH_ISOLATED = disjoint_union(RANDOM, star(0))[:2]
derivatives = pytest.mark.parametrize("dx_reference", ["message", "node"])


def features(graph, channels=6, directions=2):
    edge_index, num_nodes = graph
    return random(num_nodes, channels).requires_grad_(), edge_index, random(edge_index.size(1), directions, seed=1)


def naive_aggregate(name, m, itself, field, edge_index, num_nodes):
    target = edge_index[1]
    rows = [m[target == i] for i in range(num_nodes)]
    nothing = m.new_zeros(m.size(1))
    if name in ("mean", "max", "std"):
        by_name = {"mean": lambda r: r.mean(dim=0), "max": lambda r: r.amax(dim=0), "std": standard_deviation}
        return torch.stack([by_name[name](r) if len(r) else nothing for r in rows])
    operator = (dgn.smoothing if name.startswith("av") else dgn.derivative)(
        field[:, int(name[2]) - 1], edge_index, num_nodes
    )
    out = torch.zeros_like(itself).index_add(0, target, operator.edge_weight * m) + operator.self_weight * itself
    return out.abs() if name.startswith("dx") and "signed" not in name else out


def standard_deviation(rows):
    variance = rows.var(dim=0, correction=0)
    return torch.where(variance > 1e-5, variance.clamp(min=1e-5).sqrt(), 0.0)


def naive(conv, x, edge_index, field, edge_attr=None):
    """Towers one after another, all messages and all scaled copies in memory."""
    (source, target), n = edge_index, x.size(0)
    log_degree = torch.log(torch.bincount(target, minlength=n).to(x.dtype) + 1)[:, None] / conv.delta
    scale = {
        "identity": 1.0,
        "amplification": log_degree,
        "attenuation": 1 / torch.where(log_degree > 0, log_degree, 1),
    }
    edges = [] if edge_attr is None else [edge_attr]
    outputs = []
    for t, h in enumerate(x.chunk(conv.towers, dim=1)):
        m, itself = h[source], h
        if conv.message is not None:

            def message(*parts, t=t):
                joined = torch.cat(parts, dim=1)
                linear = not hasattr(conv.message, "__len__")
                return joined @ conv.message.weight[t].T + conv.message.bias[t] if linear else conv.message(joined)

            m = message(h[source], h[target], *edges)
            if conv.dx_reference == "message":
                itself = message(h, h, *([] if edge_attr is None else [x.new_zeros(n, edge_attr.size(1))]))
        aggregated = [naive_aggregate(name, m, itself, field, edge_index, n) for name in conv.plan.names]
        joined = torch.cat(
            ([] if conv.message is None else [h]) + [scale[s] * a for s in conv.scalers for a in aggregated], 1
        )
        outputs.append(joined @ conv.update.weight[t].T + conv.update.bias[t])
    return torch.cat(outputs, dim=1)


def assert_same(ours, theirs, leaves):
    torch.testing.assert_close(ours, theirs)
    slope = random(*theirs.shape, seed=5).to(theirs)
    pairs = (torch.autograd.grad(out, leaves, slope) for out in (ours, theirs))
    for gradient, expected in zip(*pairs, strict=True):
        torch.testing.assert_close(gradient, expected)


def make(message="complex", **options):
    torch.manual_seed(0)
    return DGNConv(6, 4, NAMES, message=message, delta=1.2, **options).double()


@derivatives
@pytest.mark.parametrize("towers", [1, 2])
@pytest.mark.parametrize("scalers", [["identity"], EVERY_SCALER, ["amplification"], ["attenuation"]], ids="+".join)
def test_complex_messages_are_never_built_and_still_the_same(scalers, towers, dx_reference):
    conv = make(scalers=scalers, towers=towers, dx_reference=dx_reference)
    x, edge_index, field = features(WITH_ISOLATED)
    assert_same(conv(x, edge_index, edge_field=field), naive(conv, x, edge_index, field), [x, *conv.parameters()])


@pytest.mark.parametrize("scalers", [["identity"], EVERY_SCALER, ["attenuation"]], ids="+".join)
def test_simple_messages(scalers):
    conv = make("simple", scalers=scalers)
    x, edge_index, field = features(WITH_ISOLATED)
    assert_same(conv(x, edge_index, edge_field=field), naive(conv, x, edge_index, field), [x, *conv.parameters()])


@pytest.mark.parametrize(
    "graph", [v for k, v in edge_cases().items() if k != "no nodes"], ids=lambda g: f"{g[1]} nodes"
)
def test_complex_messages_on_unusual_graphs(graph):
    conv = make(scalers=EVERY_SCALER, edge_dim=3)
    x, edge_index, field = features(graph)
    edge_attr = random(edge_index.size(1), 3, seed=2)
    expected = naive(conv, x, edge_index, field, edge_attr)
    torch.testing.assert_close(conv(x, edge_index, edge_field=field, edge_attr=edge_attr), expected)


@pytest.mark.parametrize("message", ["simple", "complex"])
def test_a_graph_without_nodes_gives_no_rows(message):
    conv = make(message)
    x, edge_index, field = features((torch.zeros(2, 0, dtype=torch.long), 0))
    assert conv(x, edge_index, edge_field=field).shape == (0, 4)


@derivatives
@pytest.mark.parametrize("towers", [1, 2])
def test_continuous_edge_features(towers, dx_reference):
    conv = make(edge_dim=3, towers=towers, dx_reference=dx_reference)
    x, edge_index, field = features(RANDOM)
    edge_attr = random(edge_index.size(1), 3, seed=2).requires_grad_()
    leaves = [x, edge_attr, *conv.parameters()]
    assert_same(
        conv(x, edge_index, edge_field=field, edge_attr=edge_attr), naive(conv, x, edge_index, field, edge_attr), leaves
    )


@pytest.mark.parametrize("sorted_before", [False, True])
@pytest.mark.parametrize("towers", [1, 2])
def test_categorical_edge_features(towers, sorted_before):
    conv = make(edge_dim=3, towers=towers)
    x, edge_index, field = features(RANDOM)
    table = random(4, 3, seed=2).requires_grad_()
    row = torch.randint(4, (edge_index.size(1),), generator=torch.Generator().manual_seed(0))
    edges = EdgeTable(table, row)
    edges = edges.sort(dgn.as_graph(edge_index, 9)) if sorted_before else edges
    leaves = [x, table, *conv.parameters()]
    assert_same(
        conv(x, edge_index, edge_field=field, edge_attr=edges), naive(conv, x, edge_index, field, table[row]), leaves
    )


@derivatives
@pytest.mark.parametrize("categorical", [False, True])
def test_a_deep_message_is_built_edge_by_edge(dx_reference, categorical):
    torch.manual_seed(0)
    deep = nn.Sequential(nn.Linear(15, 8), nn.Tanh(), nn.Linear(8, 6))
    conv = make(deep, edge_dim=3, dx_reference=dx_reference)
    x, edge_index, field = features(RANDOM)
    table = random(4, 3, seed=2).requires_grad_()
    row = torch.arange(edge_index.size(1)) % 4
    edge_attr = EdgeTable(table, row) if categorical else table[row]
    leaves = [x, table, *conv.parameters()]
    assert_same(
        conv(x, edge_index, edge_field=field, edge_attr=edge_attr),
        naive(conv, x, edge_index, field, table[row]),
        leaves,
    )


def test_a_linear_module_is_the_complex_message():
    conv, linear = make(), nn.Linear(12, 6).double()
    with torch.no_grad():
        linear.weight.copy_(conv.message.weight[0])
        linear.bias.copy_(conv.message.bias[0])
    other = make(linear)
    other.update.load_state_dict(conv.update.state_dict())
    x, edge_index, field = features(RANDOM)
    torch.testing.assert_close(other(x, edge_index, edge_field=field), conv(x, edge_index, edge_field=field))


def test_the_reference_of_dx_changes_derivatives_only():
    x, edge_index, field = features(RANDOM)
    results = {}
    for aggregators in (["mean", "max", "av1"], ["dx1"]):
        for dx_reference in ("message", "node"):
            torch.manual_seed(0)
            conv = DGNConv(6, 4, aggregators, message="complex", dx_reference=dx_reference).double()
            results[len(aggregators), dx_reference] = conv(x, edge_index, edge_field=field)
    assert torch.equal(results[3, "message"], results[3, "node"])
    assert not torch.allclose(results[1, "message"], results[1, "node"])


def test_gradients_reach_the_field():
    conv = make()
    x, edge_index, field = features(RANDOM)
    field.requires_grad_()
    assert_same(conv(x, edge_index, edge_field=field), naive(conv, x, edge_index, field), [field])


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_backends_agree(backend):
    if backend == "cpu":
        pytest.importorskip("numba", reason="Numba is not installed")
    conv = make(scalers=EVERY_SCALER, backend=backend)
    x, edge_index, field = features(WITH_ISOLATED)
    assert_same(conv(x, edge_index, edge_field=field), naive(conv, x, edge_index, field), [x, *conv.parameters()])


@pytest.mark.parametrize("message", ["simple", "complex"])
def test_relabelling_nodes_relabels_the_result(message):
    conv = make(message, scalers=EVERY_SCALER)
    x, edge_index, field = features(WITH_ISOLATED)

    def run(graph, x, field):
        return conv(x, graph, edge_field=field)

    assert_permutation_equivariant(run, dgn.as_graph(edge_index, x.size(0)), [x], [field])


def test_weights_computed_before_are_used_as_they_are():
    conv = make()
    x, edge_index, field = features(RANDOM)
    graph = dgn.as_graph(edge_index, 9)
    weights = conv.plan.compute_weights(field, graph)
    assert torch.equal(conv(x, graph, weights=weights), conv(x, edge_index, edge_field=field))
    assert not torch.equal(
        conv(x, graph, edge_field=-field, weights=weights._replace(edge=0 * weights.edge)),
        conv(x, graph, edge_field=-field),
    )


def test_reset_draws_new_parameters_in_the_range_of_pytorch():
    conv = make(towers=2)
    before = [parameter.clone() for parameter in conv.parameters()]
    conv.reset_parameters()
    assert not any(torch.equal(a, b) for a, b in zip(before, conv.parameters(), strict=True))
    bound = conv.message.weight.size(2) ** -0.5
    assert 0.8 * bound < float(conv.message.weight.detach().abs().max()) <= bound


def test_repr_names_the_aggregators():
    assert repr(DGNConv(6, 4, ["mean", "dx1"])).startswith("DGNConv(6, 4, aggregators=[mean, dx1]")


def test_category_encoders_give_tables_for_convolutions():
    conv, encoder = make(edge_dim=5), CategoryEncoder((3, 4), 5).double()
    x, edge_index, field = features(complete(4))
    categories = torch.stack([torch.arange(12) % 3, torch.arange(12) % 4], dim=1)
    table, built = (
        conv(x, edge_index, edge_field=field, edge_attr=e) for e in (encoder.as_table(categories), encoder(categories))
    )
    assert_same(table, built, [x, encoder.weight])


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_field_that_is_not_finite_is_refused(bad):
    x, edge_index, field = features(RANDOM)
    broken = field.detach().clone()
    broken[0, 0] = bad
    with pytest.raises(ValueError, match=rf"edge_field: expected finite numbers, got {bad} at index \[0, 0\]"):
        make("simple")(x, edge_index, edge_field=broken)
