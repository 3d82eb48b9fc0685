"""Operators as weights on edges and nodes, against their matrices."""

import pytest
import torch

import dgn
from dgn.testing import (
    assert_batch_independent,
    assert_linear,
    assert_permutation_equivariant,
    complete,
    cycle,
    disjoint_union,
    edge_cases,
    grid,
    path,
)
from tests.small_graphs import both_dtypes, random

GRAPHS = {"grid": grid(3, 4), "complete": complete(4), **edge_cases()}
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


def random_operator(edge_index, num_nodes, k=2, dtype=torch.float64):
    graph = dgn.as_graph(edge_index, num_nodes)
    return dgn.Operator(graph, random(graph.num_edges, k, dtype=dtype), random(num_nodes, k, seed=1, dtype=dtype))


@both_dtypes
@every_graph
def test_applies_the_defining_sum(graph, dtype):
    operator = random_operator(*graph, dtype=dtype)
    x = random(graph[1], 3, seed=2, dtype=dtype)
    expected = operator.self_weight[:, :, None] * x[:, None, :]
    for e, (j, i) in enumerate(graph[0].T.tolist()):
        expected[i] += operator.edge_weight[e][:, None] * x[j]
    torch.testing.assert_close(operator(x), expected)
    torch.testing.assert_close(operator(x[:, 0]), expected[:, :, 0])


@both_dtypes
@every_graph
def test_matrix_is_what_unit_vectors_are_mapped_to(graph, dtype):
    operator = random_operator(*graph, k=3, dtype=dtype)
    columns = operator(torch.eye(graph[1], dtype=dtype))
    for k in range(1, 4):
        torch.testing.assert_close(operator.dense(k), columns[:, k - 1])


@every_graph
def test_matrix_of_direction_1_is_the_default(graph):
    operator = random_operator(*graph)
    assert torch.equal(operator.dense(), operator.dense(1))
    assert operator.dense().shape == (graph[1], graph[1])


def test_length_is_the_number_of_directions_and_may_be_0():
    assert len(random_operator(*path(3), k=4)) == 4
    nothing = random_operator(*path(3), k=0)
    assert len(nothing) == 0
    assert nothing(random(3)).shape == (3, 0)
    assert nothing(random(3, 5)).shape == (3, 0, 5)


@every_graph
def test_linear(graph):
    assert_linear(random_operator(*graph), (graph[1], 2))


def test_equivariant():
    graph = dgn.as_graph(*disjoint_union(grid(3, 3), cycle(4), path(1)))
    x, self_weight, edge_weight = (
        random(graph.num_nodes, 2),
        random(graph.num_nodes, 2, seed=1),
        random(36 - 4, 2, seed=2),
    )

    def applied(graph, x, self_weight, edge_weight):
        return dgn.Operator(graph, edge_weight, self_weight)(x)

    assert_permutation_equivariant(applied, graph, [x, self_weight], [edge_weight])
    assert_batch_independent(applied, graph, [x, self_weight], [edge_weight])


def test_passes_gradients():
    graph = dgn.as_graph(*grid(2, 2))
    inputs = [random(4, 2), random(8, 2), random(4, 2)]
    for values in inputs:
        values.requires_grad_()
    assert torch.autograd.gradcheck(lambda x, edge, node: dgn.Operator(graph, edge, node)(x), inputs)
    assert torch.autograd.gradcheck(lambda edge, node: dgn.Operator(graph, edge, node).dense(2), inputs[1:])


@pytest.mark.parametrize("k", [0, 3, -1])
def test_direction_out_of_range_is_refused(k):
    with pytest.raises(ValueError, match=rf"k: expected a direction from 1 to 2, got {k}; direction 1 is column 0"):
        random_operator(*path(3)).dense(k)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (
            torch.tensor([0.0, torch.nan, 1.0]),
            ValueError,
            r"x: expected finite .*got nan at index \[1\]; clean the input",
        ),
        (torch.tensor([[0.0], [1.0], [-torch.inf]]), ValueError, r"x: .*got -inf at index \[2, 0\]; clean the input"),
        (torch.ones(4), ValueError, r"x: expected 3 rows, one per node, got shape \[4\]; give one row per node"),
        (torch.arange(3), TypeError, r"x: expected floating-point numbers, got torch\.int64; convert it with x\.float"),
    ],
)
def test_wrong_features_are_refused_with_the_remedy(x, error, message):
    with pytest.raises(error, match=message):
        random_operator(*path(3))(x)
