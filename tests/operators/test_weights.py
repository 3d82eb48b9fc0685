"""B_av, B_dx and their variants, against the formulas of the paper on matrices."""

import pytest
import torch

import dgn
from dgn.testing import (
    assert_batch_independent,
    assert_derivative,
    assert_permutation_equivariant,
    assert_reflection,
    assert_smoothing,
    complete,
    cycle,
    disjoint_union,
    grid,
    path,
    star,
)
from tests.small_graphs import GRAPHS, both_dtypes, every_graph, random

SIMPLE = {name: graph for name, graph in GRAPHS.items() if name != "parallel edges"}
simple_graphs = pytest.mark.parametrize("graph", SIMPLE.values(), ids=SIMPLE)
variants = pytest.mark.parametrize(("balance", "padding"), [("row", None), ("center", None), ("row", "zero")])
operators = pytest.mark.parametrize("operator", [dgn.smoothing, dgn.derivative])


def dense(field, edge_index, num_nodes):
    """The paper's matrix F: row i, column j."""
    matrix = torch.zeros(num_nodes, num_nodes, dtype=field.dtype)
    return matrix.index_put((edge_index[1], edge_index[0]), field)


def rows(matrix):
    """Rows divided by their L1 norm, 0 / 0 = 0."""
    return (matrix / matrix.abs().sum(dim=1, keepdim=True)).nan_to_num(0.0)


def centred(matrix):
    return matrix - matrix.sum(dim=1).diag()


def paper_smoothing(matrix, balance, padding):
    forward, backward = rows(matrix.clamp(min=0)), rows(-matrix.clamp(max=0))
    if padding == "zero":
        return (forward + backward) / 2
    return rows(forward + backward) if balance == "center" else rows(matrix.abs())


def paper_derivative(matrix, balance, padding):
    forward, backward = rows(matrix.clamp(min=0)), rows(matrix.clamp(max=0))
    if padding == "zero":
        result = centred((forward + backward) / 2)
        for i in range(len(matrix)):
            if not backward[i].any():
                result[i] = forward[i]
            elif not forward[i].any():
                result[i] = backward[i]
        return result
    return centred((forward + backward) / 2) if balance == "center" else centred(rows(matrix))


@both_dtypes
@variants
@simple_graphs
@pytest.mark.parametrize(
    ("operator", "paper"), [(dgn.smoothing, paper_smoothing), (dgn.derivative, paper_derivative)], ids=["av", "dx"]
)
def test_formulas_of_the_paper(operator, paper, graph, balance, padding, dtype):
    field = random(graph[0].size(1), 2, dtype=dtype)
    built = operator(field, *graph, balance=balance, padding=padding)
    for k in (1, 2):
        expected = paper(dense(field[:, k - 1], *graph), balance, padding)
        torch.testing.assert_close(built.dense(k), expected)


@both_dtypes
@every_graph
def test_averages_are_averages(graph, dtype):
    field = random(graph[0].size(1), 2, dtype=dtype)
    assert_smoothing(dgn.smoothing(field, *graph), graph[1], dtype)
    assert_smoothing(dgn.smoothing(field, *graph, balance="center"), graph[1], dtype)
    assert_smoothing(dgn.smoothing(field, *graph, padding="zero"), graph[1], dtype, row_sums=(0.0, 0.5, 1.0))


@both_dtypes
@every_graph
def test_derivatives_are_derivatives(graph, dtype):
    field = random(graph[0].size(1), 2, dtype=dtype)
    assert_derivative(dgn.derivative(field, *graph), graph[1], dtype)
    assert_derivative(dgn.derivative(field, *graph, balance="center"), graph[1], dtype)


@every_graph
@operators
@variants
def test_one_column_is_a_field_of_one_direction(operator, graph, balance, padding):
    field = random(graph[0].size(1))
    one = operator(field, *graph, balance=balance, padding=padding)
    other = operator(field[:, None], *graph, balance=balance, padding=padding)
    assert torch.equal(one.edge_weight, other.edge_weight)
    assert torch.equal(one.self_weight, other.self_weight)


@every_graph
@variants
def test_nodes_without_in_edges_aggregate_to_0(graph, balance, padding):
    edge_index, num_nodes = graph
    alone = torch.ones(num_nodes, dtype=torch.bool).index_fill(0, edge_index[1], False)
    field, x = random(edge_index.size(1), 2), random(num_nodes, 3)
    for operator in (dgn.smoothing, dgn.derivative):
        y = operator(field, *graph, balance=balance, padding=padding)(x)
        assert y.shape == (num_nodes, 2, 3)
        assert not y[alone].any()
        assert not operator(0 * field, *graph, balance=balance, padding=padding)(x).any()


@variants
def test_a_self_loop_weighs_in_the_average_and_cancels_in_the_derivative(balance, padding):
    edge_index, x = torch.tensor([[0, 1], [0, 0]]), torch.tensor([5.0, 7.0])
    field = torch.tensor([2.0, 2.0])
    assert dgn.smoothing(field, edge_index, 2)(x)[0].item() == 6.0
    if padding is None:
        half = 2 if balance == "center" else 1
        assert dgn.derivative(field, edge_index, 2, balance=balance)(x)[0].item() == 1.0 / half


def test_parallel_edges_are_separate_messages():
    edge_index, x = torch.tensor([[1, 1, 2], [0, 0, 0]]), torch.tensor([0.0, 3.0, 9.0])
    assert dgn.smoothing(torch.ones(3), edge_index, 3)(x)[0].item() == 5.0
    assert dgn.smoothing(torch.ones(3), edge_index, 3).dense()[0].tolist() == pytest.approx([0, 2 / 3, 1 / 3])


@both_dtypes
@operators
@variants
def test_scale_does_not_matter(operator, balance, padding, dtype):
    graph = grid(3, 4)
    field = random(graph[0].size(1), 2, dtype=dtype)
    options = {"balance": balance, "padding": padding}
    for scale in (1e-12, 1e12):
        tiny, usual = operator(scale * field, *graph, **options), operator(field, *graph, **options)
        torch.testing.assert_close(tiny.edge_weight, usual.edge_weight)
        torch.testing.assert_close(tiny.self_weight, usual.self_weight)


@operators
@variants
def test_rounding_noise_on_a_row_of_zeros_stays_0(operator, balance, padding):
    edge_index, num_nodes = path(3)
    field = torch.tensor([1.0, 1e-17, -1.0, -1e-17])
    assert not operator(field, edge_index, num_nodes, balance=balance, padding=padding).dense()[2].any()


@both_dtypes
@variants
def test_reflection(balance, padding, dtype):
    graph = grid(3, 4)
    field, x = random(graph[0].size(1), 2, dtype=dtype), random(12, 3, dtype=dtype)
    options = {"balance": balance, "padding": padding}
    assert_reflection(lambda field: dgn.smoothing(field, *graph, **options), field, x, parity=1)
    assert_reflection(lambda field: dgn.derivative(field, *graph, **options), field, x, parity=-1)


def test_centre_balance_gives_both_sides_the_same_weight():
    edge_index, x = torch.tensor([[1, 2, 3], [0, 0, 0]]), torch.tensor([0.0, 1.0, 10.0, 100.0])
    field = torch.tensor([8.0, 1.0, -1.0])
    average = dgn.smoothing(field, edge_index, 4, balance="center").dense()[0]
    assert average[3] == average[1:3].sum() == 0.5
    slope = dgn.derivative(field, edge_index, 4, balance="center")(x)[0].item()
    assert slope == pytest.approx((8 / 9 * 1 + 1 / 9 * 10) / 2 - 100 / 2)


def test_zero_padding_sees_zeros_beyond_the_ends_of_a_path():
    edge_index, num_nodes = path(3)
    field = dgn.gradient(torch.tensor([0.0, 1.0, 2.0]), edge_index)
    assert dgn.smoothing(field, edge_index, num_nodes, padding="zero").dense().tolist() == [
        [0.0, 0.5, 0.0],
        [0.5, 0.0, 0.5],
        [0.0, 0.5, 0.0],
    ]
    assert dgn.derivative(field, edge_index, num_nodes, padding="zero").dense().tolist() == [
        [0.0, 1.0, 0.0],
        [-0.5, 0.0, 0.5],
        [0.0, -1.0, 0.0],
    ]


@both_dtypes
def test_padding_changes_only_nodes_that_miss_a_side(dtype):
    graph = complete(6)
    field = dgn.gradient(random(6, dtype=dtype), graph[0])  # the extremes of a potential see one side only
    both = dgn.divergence((field > 0).to(dtype), *graph) * dgn.divergence((field < 0).to(dtype), *graph) > 0
    for operator in (dgn.smoothing, dgn.derivative):
        padded = operator(field, *graph, padding="zero").dense()
        balanced = operator(field, *graph, balance="center").dense()
        torch.testing.assert_close(padded[both], balanced[both])
        assert not torch.allclose(padded[~both], balanced[~both])
    assert both.sum() == 4


@both_dtypes
def test_global_scope_modulates_by_the_size_of_the_field(dtype):
    edge_index, num_nodes, batch = disjoint_union(grid(2, 3), star(3), cycle(4))
    field, x = random(edge_index.size(1), 2, dtype=dtype), random(num_nodes, 3, dtype=dtype)
    options = {"scope": "graph", "batch": batch}
    normalized = dgn.normalize(field, edge_index, num_nodes, scope="graph", batch=batch)
    slope = dgn.derivative(field, edge_index, num_nodes, **options)
    torch.testing.assert_close(slope(x), dgn.directional_derivative(x, normalized, edge_index))
    average = dgn.smoothing(field, edge_index, num_nodes, **options)
    assert torch.equal(average.edge_weight, normalized.abs())
    total = torch.zeros(3, 2, dtype=dtype).index_add(0, batch[edge_index[1]], average.edge_weight)
    torch.testing.assert_close(total, torch.ones_like(total))


@operators
@pytest.mark.parametrize(
    "options",
    [{}, {"balance": "center"}, {"padding": "zero"}, {"scope": "graph"}],
    ids=["row", "center", "pad", "graph"],
)
def test_equivariant(operator, options):
    graph = dgn.as_graph(*disjoint_union(grid(3, 3), star(3), path(1), complete(4)))
    x, field = random(graph.num_nodes, 2), random(graph.num_edges, 2)
    field[graph.batch[graph.target] == 1] *= 1e-10

    def applied(graph, x, field):
        return operator(field, graph, **options)(x)

    assert_permutation_equivariant(applied, graph, [x], [field])
    assert_batch_independent(applied, graph, [x], [field])


@operators
@variants
def test_passes_gradients(operator, balance, padding):
    graph, x = grid(2, 3), random(6, 2).requires_grad_()
    field = random(14, 2, seed=1)
    field = (field + field.sign()).requires_grad_()  # away from the kink of the absolute value

    def applied(field, x):
        return operator(field, *graph, balance=balance, padding=padding)(x)

    assert torch.autograd.gradcheck(applied, (field, x))


def test_forward_and_backward_fields_average_one_side_only():
    edge_index, x = torch.tensor([[1, 2, 3], [0, 0, 0]]), torch.tensor([0.0, 1.0, 5.0, 100.0])
    field = torch.tensor([3.0, 1.0, -1.0])
    assert dgn.smoothing(dgn.forward_field(field), edge_index, 4)(x)[0].item() == 2.0
    assert dgn.smoothing(dgn.backward_field(field), edge_index, 4)(x)[0].item() == 100.0


EDGES, NODES = star(2)
ONES, ZEROS = torch.ones(4), torch.zeros(3, dtype=torch.long)


@operators
@pytest.mark.parametrize(
    ("field", "options", "message"),
    [
        (ONES, {"balance": "centre"}, r"balance: expected one of .*got 'centre'; did you mean 'center'\?"),
        (ONES, {"padding": "zeros"}, r"padding: expected one of .*got 'zeros'; did you mean 'zero'\?"),
        (ONES, {"scope": "edge"}, r"scope: expected one of 'node', 'graph', got 'edge'; "),
        (ONES, {"scope": "graph"}, r"batch: expected .*got None; pass batch=data\.batch, or zeros"),
        (ONES, {"scope": "graph", "batch": ZEROS, "padding": "zero"}, r"scope: .*got 'graph'; .*leave both"),
        (ONES[:3], {}, r"field: expected 4 rows, one per edge, got shape \[3\]; give one row per edge"),
        (ONES * torch.nan, {}, r"field: expected finite numbers, got nan at index \[0\]; clean the input"),
        (ONES / 0, {}, r"field: expected finite numbers, got inf at index \[0\]; clean the input"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_the_remedy(operator, field, options, message):
    with pytest.raises(ValueError, match=message):
        operator(field, EDGES, NODES, **options)
