"""Normalisation by rows and by graphs, free of the scale of the field."""

import math

import pytest
import torch

import dgn
from dgn.testing import (
    assert_batch_independent,
    assert_permutation_equivariant,
    complete,
    cycle,
    disjoint_union,
    grid,
    path,
    star,
)
from tests.small_graphs import both_dtypes, every_graph, random

both_norms = pytest.mark.parametrize("p", [1, 2])


@both_dtypes
@both_norms
@every_graph
def test_rows_have_norm_1_or_0(graph, p, dtype):
    edge_index, num_nodes = graph
    field = random(edge_index.size(1), 2, dtype=dtype)
    field[edge_index[1] == 0] = 0
    unit = dgn.normalize(field, edge_index, num_nodes, p=p)
    for i in range(num_nodes):
        row = edge_index[1] == i
        expected = field[row] / field[row].norm(p=p, dim=0) if i and row.any() else torch.zeros_like(field[row])
        torch.testing.assert_close(unit[row], expected)


@both_dtypes
@both_norms
@pytest.mark.parametrize("scale", [1e-12, 1e-4, 3.0, 1e12])
def test_scale_does_not_matter(scale, p, dtype):
    graph = grid(3, 4)
    field = random(graph[0].size(1), 2, dtype=dtype)
    torch.testing.assert_close(dgn.normalize(scale * field, *graph, p=p), dgn.normalize(field, *graph, p=p))


@both_dtypes
@both_norms
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_squares_neither_vanish_nor_overflow(scale, p, dtype):
    graph = star(3)
    field = random(6, dtype=dtype)
    torch.testing.assert_close(dgn.normalize(scale * field, *graph, p=p), dgn.normalize(field, *graph, p=p))


@both_norms
def test_idempotent_and_odd(p):
    graph = complete(5)
    unit = dgn.normalize(random(20, 3), *graph, p=p)
    torch.testing.assert_close(dgn.normalize(unit, *graph, p=p), unit)
    assert torch.equal(dgn.normalize(-random(20, 3), *graph, p=p), -unit)


@both_dtypes
@both_norms
def test_columns_are_normalised_separately(p, dtype):
    graph = grid(3, 3)
    field = random(graph[0].size(1), 3, dtype=dtype) * torch.tensor([1.0, 1e-10, 1e6], dtype=dtype)
    columns = [dgn.normalize(column, *graph, p=p) for column in field.unbind(1)]
    torch.testing.assert_close(dgn.normalize(field, *graph, p=p), torch.stack(columns, dim=1))


@both_dtypes
@both_norms
def test_rounding_noise_on_a_row_of_zeros_stays_0(p, dtype):
    edge_index, num_nodes = path(3)  # edges 1-0, 2-1, 0-1, 1-2 as target-source pairs
    noise = torch.tensor([1.0, 1e-17, -1.0, -1e-17], dtype=dtype)
    unit = dgn.normalize(noise, edge_index, num_nodes, p=p)
    assert unit[edge_index[1] == 2].tolist() == [0.0]
    assert unit[edge_index[1] == 0].tolist() == [-1.0]


@both_norms
def test_small_rows_above_the_noise_are_directions(p):
    edge_index, num_nodes = path(3)
    unit = dgn.normalize(torch.tensor([1.0, 1e-6, -1.0, -1e-6]), edge_index, num_nodes, p=p)
    assert unit[edge_index[1] == 2].tolist() == [1.0]


def test_noise_is_measured_in_the_graph_of_the_edge():
    edge_index, num_nodes, batch = disjoint_union(path(2), path(2))
    field = torch.tensor([1.0, -1.0, 1e-12, -1e-12])
    assert dgn.normalize(field, edge_index, num_nodes, batch=batch).tolist() == [1.0, -1.0, 1.0, -1.0]
    assert dgn.normalize(field, edge_index, num_nodes).tolist() == [1.0, -1.0, 0.0, 0.0]


def test_components_as_batch_keep_the_field_of_a_giant_one():
    giant, n = path(6000)
    wave = math.sqrt(2 / n) * torch.cos(torch.pi * (torch.arange(n, dtype=torch.float64) + 0.5) / n)
    pair = torch.tensor([0.5, -0.5], dtype=torch.float64).div(math.sqrt(0.5))
    edge_index, num_nodes, component = disjoint_union((giant, n), path(2))
    field = dgn.gradient(torch.cat([wave, pair]), edge_index)
    alone = dgn.smoothing(field[: giant.size(1)], giant, n).edge_weight
    assert torch.equal(dgn.smoothing(field, edge_index, num_nodes, batch=component).edge_weight[: len(alone)], alone)
    assert alone.all()
    assert not dgn.smoothing(field, edge_index, num_nodes).edge_weight.all()  # the ends of the path, beside the pair


@both_dtypes
@both_norms
def test_graph_scope_divides_by_the_norm_of_the_whole_graph(p, dtype):
    graphs = [grid(2, 3), star(3), path(1), cycle(4)]
    edge_index, num_nodes, batch = disjoint_union(*graphs)
    field = random(edge_index.size(1), 2, dtype=dtype)
    parts = field.split([graph[0].size(1) for graph in graphs])
    expected = torch.cat([part / part.norm(p=p, dim=0) if len(part) else part for part in parts])
    torch.testing.assert_close(dgn.normalize(field, edge_index, num_nodes, p, "graph", batch), expected)


@pytest.mark.parametrize("scope", ["node", "graph"])
def test_equivariant(scope):
    graph = dgn.as_graph(*disjoint_union(grid(3, 3), star(3), path(1), complete(4)))
    field = random(graph.num_edges, 2) * torch.linspace(1e-9, 1, graph.num_edges, dtype=torch.float64)[:, None]

    def normalized(graph, field):
        return dgn.normalize(field, graph, scope=scope)

    assert_permutation_equivariant(normalized, graph, [], [field], "edge")
    assert_batch_independent(normalized, graph, [], [field], "edge")


@both_norms
@pytest.mark.parametrize("scope", ["node", "graph"])
def test_passes_gradients(p, scope):
    edge_index, num_nodes = grid(2, 3)
    batch = torch.zeros(num_nodes, dtype=torch.long)
    field = random(edge_index.size(1), 2)
    field = (field + field.sign()).requires_grad_()  # away from the kink of the absolute value
    assert torch.autograd.gradcheck(lambda f: dgn.normalize(f, edge_index, num_nodes, p, scope, batch), (field,))


@both_norms
def test_gradient_is_finite_at_rows_of_zeros(p):
    edge_index, num_nodes = path(3)
    field = torch.tensor([1.0, 0.0, -1.0, 0.0], requires_grad=True)
    dgn.normalize(field, edge_index, num_nodes, p=p).square().sum().backward()
    assert field.grad is not None
    assert field.grad.isfinite().all()


EDGES, NODES = star(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dgn.normalize(torch.ones(4), EDGES, NODES, p=3), r"p: expected 1 or 2, got 3; 1 is"),
        (lambda: dgn.normalize(torch.ones(4), EDGES, NODES, scope="nodes"), r"scope: .*got 'nodes'; did you mean"),
        (lambda: dgn.normalize(torch.ones(4), EDGES, NODES, scope="graph"), r"batch: .*got None; pass batch="),
        (lambda: dgn.normalize(torch.ones(3), EDGES, NODES), r"field: expected 4 rows.*got shape \[3\]; give one row"),
        (lambda: dgn.normalize(torch.full((4,), torch.nan), EDGES, NODES), r"field: .*got nan at index \[0\]; clean"),
        (lambda: dgn.normalize(torch.ones(4), EDGES, NODES, batch=torch.zeros(2).long()), r"batch: .*shape \[2\]; PyG"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()
