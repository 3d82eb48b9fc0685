"""Walks of several steps as aggregators: products of dense matrices, one learned coefficient each."""

from math import comb

import pytest
import torch

import dgn
from dgn.aggregation import Messages, aggregate, dispatch, make_plan
from dgn.nn import DGN, DGNConv, NetworkSettings
from dgn.testing import grid, path, random_graph
from tests.small_graphs import both_dtypes

GRAPHS = {
    "grid": grid(3, 4),
    "random": random_graph(9, 0.4, torch.Generator().manual_seed(0)),
    "no edges": (torch.empty(2, 0, dtype=torch.long), 3),
}
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
NAMES = ["walks1of1", "walks2of2", "walks3of2", "walks1of2-permuted", "walks2of2-permuted", "walks3of1-permuted"]


def draw(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def by_matrices(name, field, graph, x):
    """Every walk as a product of dense matrices |F+-| / ||F||_1, in the order of ``dgn.walks``, [N, walks, C]."""
    radius, n = (int(number) for number in name.removeprefix("walks").removesuffix("-permuted").split("of"))
    edge_index, num_nodes = graph
    family = dgn.walks(field[:, :n], *graph, radius=radius, permutations=name.endswith("permuted"))
    steps = {}
    for k in range(1, n + 1):
        dense = field.new_zeros(num_nodes, num_nodes).index_put((edge_index[1], edge_index[0]), field[:, k - 1])
        unit = dense / dense.abs().sum(dim=1, keepdim=True).clamp(min=1e-300)
        steps |= {k: unit.clamp(min=0), -k: -unit.clamp(max=0)}
    outputs = []
    for word in family.words:
        walked = x
        for step in word:
            walked = steps[step] @ walked
        outputs.append(walked)
    return torch.stack(outputs, dim=1)


def run(names, field, graph, x, backend="auto"):
    plan, graph = make_plan(names), dgn.as_graph(*graph)
    return aggregate(plan, Messages(source=x), plan.compute_weights(field, graph), graph, backend)


@both_dtypes
@every_graph
@pytest.mark.parametrize("name", NAMES)
def test_walks_are_products_of_matrices_with_gradients(name, graph, dtype, kernel, assert_close):
    field = draw(graph[0].size(1), 2, dtype=dtype).requires_grad_()
    x = draw(graph[1], 3, seed=1, dtype=dtype).requires_grad_()
    exact_field, exact_x = (tensor.detach().double().requires_grad_() for tensor in (field, x))
    on_device = graph[0].to(kernel.device), graph[1]
    got = run([name], field.to(kernel.device), on_device, x.to(kernel.device), kernel.backend)
    expected = by_matrices(name, exact_field, graph, exact_x)
    assert got.dtype == dtype
    assert_close(got, expected, dtype)
    slope = draw(*expected.shape, seed=2)
    grads = torch.autograd.grad(got, (field, x), slope.to(got), materialize_grads=True)
    exact = torch.autograd.grad(expected, (exact_field, exact_x), slope, materialize_grads=True)
    for one, other, what in zip(grads, exact, ("field", "x"), strict=True):
        assert_close(one, other, dtype, f"gradient of {what}")


def test_walks_stand_among_other_aggregators_in_the_order_of_names():
    graph, field, x = grid(3, 4), draw(34, 2), draw(12, 3, seed=1)
    names = ["mean", "walks2of2", "dx1", "walks1of1-permuted", "max"]
    got = run(names, field, graph, x)
    assert got.size(1) == len(make_plan(names)) == 1 + 16 + 1 + 3 + 1
    expected = [
        by_matrices(name, field, graph, x) if "walk" in name else run([name], field, graph, x) for name in names
    ]
    torch.testing.assert_close(got, torch.cat(expected, dim=1))


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("radius", [1, 2, 3])
def test_parameters_are_those_of_the_two_formulas(radius, n):
    reverse = sum(2**r * comb(n, m) * comb(r - 1, m - 1) for r in range(1, radius + 1) for m in range(1, min(n, r) + 1))
    permuted = ((2 * n) ** (radius + 1) - 1) // (2 * n - 1)
    for name, count in ((f"walks{radius}of{n}", reverse), (f"walks{radius}of{n}-permuted", permuted)):
        conv = DGNConv(1, 1, [name])
        assert conv.update.scaled.numel() == count
        assert conv.plan.num_directions == n


@pytest.mark.parametrize("name", ["walks3of2", "walks3of2-permuted"])
def test_shared_prefixes_are_computed_once(name, monkeypatch):
    """Each walk of one step or more is one weighted sum, and no other sums are made."""
    sums, plain = [], dispatch.run_plan

    def counting(plan, messages, *rest):
        sums.append(len(plan.codes) * messages.source.size(1))
        return plain(plan, messages, *rest)

    monkeypatch.setattr(dispatch, "run_plan", counting)
    got = run([name], draw(34, 2), grid(3, 4), draw(12, 1, seed=1))
    assert sum(sums) == got.size(1) - name.endswith("permuted")


@pytest.mark.parametrize("options", [{}, {"message": "complex"}, {"message": "complex", "towers": 2, "edge_dim": 5}])
def test_the_first_step_aggregates_messages_and_the_next_ones_their_sums(options):
    graph, field, x = grid(3, 4), draw(34, 2), draw(12, 4, seed=1)
    edge_attr = draw(34, 5, seed=3) if "edge_dim" in options else None
    conv = DGNConv(4, 6, ["walks2of1"], **options).double()
    graph_of = dgn.as_graph(*graph)
    plans = make_plan(["walks2of1"]), make_plan(["walks1of1"])
    messages = conv._messages(x, graph_of, edge_attr)
    whole, first = (aggregate(plan, messages, plan.compute_weights(field, graph_of), graph_of) for plan in plans)
    torch.testing.assert_close(whole[:, :2], first)
    steps = dgn.walks(field[:, :1], *graph, radius=1)
    torch.testing.assert_close(whole[:, 2:], torch.cat([steps(first[:, k]) for k in (0, 1)], dim=1))
    update = conv.update.scaled.view(conv.towers, 6 // conv.towers, 6, 4 // conv.towers)
    mixed = torch.einsum("nwtc,towc->nto", whole.view(12, 6, conv.towers, 4 // conv.towers), update).flatten(1)
    own = (
        0
        if conv.update.own is None
        else conv(x, graph_of, edge_field=0 * field, edge_attr=edge_attr) - conv.update.bias.flatten()
    )
    torch.testing.assert_close(
        conv(x, graph_of, edge_field=field, edge_attr=edge_attr), mixed + own + conv.update.bias.flatten()
    )


def test_a_network_of_walks_runs_and_learns():
    edge_index, num_nodes = grid(3, 4)
    torch.manual_seed(0)
    net = DGN(torch.nn.Linear(3, 8), NetworkSettings(hidden=8, aggregators=("mean", "walks2of2"), num_layers=2))
    out = net(draw(num_nodes, 3, dtype=torch.float32), edge_index, edge_field=draw(34, 2, dtype=torch.float32))
    out.sum().backward()
    assert all(parameter.grad is not None for parameter in net.parameters())


def test_the_sign_of_a_field_exchanges_walks():
    graph, field, x = path(5), draw(8, 1), draw(5, 2, seed=1)
    forward, backward = (run(["walks2of1"], sign * field, graph, x) for sign in (1, -1))
    torch.testing.assert_close(forward[:, [1, 0, 5, 4, 3, 2]], backward)


def test_walks_need_their_directions():
    with pytest.raises(ValueError, match="at least 3 columns for aggregators walks2of3, got 2"):
        run(["walks2of3"], draw(34, 2), grid(3, 4), draw(12, 1))


@pytest.mark.parametrize(
    "name", ["walks0of1", "walks2of0", "walks2", "walks2of1-signed", "walks2of1-permuted-permuted"]
)
def test_meaningless_walks_are_refused(name):
    with pytest.raises(ValueError, match="or walks2of3"):
        make_plan([name])
