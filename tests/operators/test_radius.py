"""Walks of radius R: their number, their order and their matrices."""

from math import comb

import pytest
import torch

import dgn
from dgn.testing import (
    assert_batch_independent,
    assert_linear,
    assert_permutation_equivariant,
    complete,
    disjoint_union,
    edge_cases,
    grid,
    path,
    star,
)
from tests.small_graphs import both_dtypes, random

every_graph = pytest.mark.parametrize("graph", edge_cases().values(), ids=edge_cases())
orders = pytest.mark.parametrize("permutations", [False, True])


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("radius", [0, 1, 2, 3])
def test_parameter_counts_are_those_of_the_paper(n, radius):
    edge_index, num_nodes = path(4)
    fields = random(6, n)
    ordered = dgn.walks(fields, edge_index, num_nodes, radius)
    assert len(ordered) == sum(
        2**r * comb(n, count) * comb(r - 1, count - 1) for r in range(radius + 1) for count in range(1, min(n, r) + 1)
    )
    permuted = dgn.walks(fields, edge_index, num_nodes, radius, permutations=True)
    assert len(permuted) == ((2 * n) ** (radius + 1) - 1) // (2 * n - 1)
    assert set(ordered.names) <= set(permuted.names)
    for family in (ordered, permuted):
        assert len(set(family.names)) == len(family.names) == len(family)
        assert family(random(num_nodes, 5)).shape == (num_nodes, len(family), 5)


@pytest.mark.parametrize(("identity", "names"), [(True, ("0", "+1", "-1")), (False, ("+1", "-1"))])
@orders
def test_identity_can_be_included_or_left_out(permutations, identity, names):
    family = dgn.walks(random(4), *path(3), radius=1, permutations=permutations, identity=identity)
    assert family.names == names


def test_identity_is_the_signal_itself():
    x = random(3, 2)
    assert torch.equal(dgn.walks(random(4), *path(3), radius=1, identity=True)(x)[:, 0], x)


def step_matrices(fields, edge_index, num_nodes, p):
    """The matrix of each step, built from the field's own matrix."""
    steps = {}
    for k, field in enumerate(fields.unbind(1), start=1):
        matrix = torch.zeros(num_nodes, num_nodes, dtype=field.dtype)
        matrix = matrix.index_put((edge_index[1], edge_index[0]), field)
        if p is not None:
            matrix = (matrix / torch.linalg.vector_norm(matrix, ord=p, dim=1, keepdim=True)).nan_to_num(0.0)
        steps[f"+{k}"], steps[f"-{k}"] = matrix.clamp(min=0), -matrix.clamp(max=0)
    return steps


@both_dtypes
@orders
@pytest.mark.parametrize("p", [None, 1, 2])
@pytest.mark.parametrize("graph", [complete(4), grid(2, 3), edge_cases()["isolated node"], edge_cases()["directed"]])
def test_each_walk_is_the_product_of_its_steps(graph, p, permutations, dtype):
    fields, x = random(graph[0].size(1), 2, dtype=dtype), random(graph[1], 3, seed=1, dtype=dtype)
    family = dgn.walks(fields, *graph, radius=3, permutations=permutations, p=p)
    steps = step_matrices(fields, *graph, p)
    walked = family(x)
    for index, name in enumerate(family.names):
        expected = x
        for place in range(0, len(name) - 1, 2):
            expected = steps[name[place : place + 2]] @ expected
        torch.testing.assert_close(walked[:, index], expected)


@orders
def test_shared_prefixes_are_computed_once(permutations, monkeypatch):
    applied = []
    apply = dgn.Operator.__call__
    monkeypatch.setattr(dgn.Operator, "__call__", lambda self, x: applied.append(len(self)) or apply(self, x))
    family = dgn.walks(random(8, 2), *star(4), radius=3, permutations=permutations, identity=True)
    family(random(5))
    assert sum(applied) == len(family) - 1  # one step for each walk, from the walk that is one step shorter


def test_walks_without_permutations_keep_the_fields_in_order():
    family = dgn.walks(random(4, 3), *path(3), radius=3)
    for word in family.words:
        directions = [abs(step) for step in word]
        assert directions == sorted(directions)


@both_dtypes
@every_graph
def test_edge_cases_have_walks(graph, dtype):
    fields = random(graph[0].size(1), 2, dtype=dtype)
    x = random(graph[1], 3, dtype=dtype)
    family = dgn.walks(fields, *graph, radius=2, identity=True)
    walked = family(x)
    assert walked.shape == (graph[1], len(family), 3)
    assert torch.equal(walked[:, :, 0], family(x[:, 0]))
    alone = torch.ones(graph[1], dtype=torch.bool).index_fill(0, graph[0][1], False)
    assert not walked[alone, 1:].any()
    assert_linear(family, (graph[1], 2), dtype)


@every_graph
def test_one_column_is_a_field_of_one_direction(graph):
    field, x = random(graph[0].size(1)), random(graph[1])
    assert torch.equal(dgn.walks(field, *graph)(x), dgn.walks(field[:, None], *graph)(x))


@orders
def test_equivariant(permutations):
    graph = dgn.as_graph(*disjoint_union(grid(3, 3), star(3), path(1)))
    x, fields = random(graph.num_nodes, 2), random(graph.num_edges, 2)

    def walked(graph, x, fields):
        return dgn.walks(fields, graph, radius=2, permutations=permutations)(x)

    assert_permutation_equivariant(walked, graph, [x], [fields])
    assert_batch_independent(walked, graph, [x], [fields])


@pytest.mark.parametrize("p", [None, 1, 2])
def test_passes_gradients(p):
    graph, x = grid(2, 2), random(4).requires_grad_()
    fields = random(8, 2)
    fields = (fields + fields.sign()).requires_grad_()  # away from the kink of the two parts
    assert torch.autograd.gradcheck(lambda fields, x: dgn.walks(fields, *graph, radius=2, p=p)(x), (fields, x))


EDGES, NODES = path(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: dgn.walks(torch.ones(4), EDGES, NODES, radius=-1),
            r"radius: expected 0 or more .*got -1; radius=1 is",
        ),
        (lambda: dgn.walks(torch.ones(4), EDGES, NODES, p=3), r"p: expected 1 or 2, got 3; 1 is the paper"),
        (lambda: dgn.walks(torch.ones(3), EDGES, NODES), r"fields: expected 4 rows.*got shape \[3\]; give one row"),
        (lambda: dgn.walks(torch.ones(4) / 0, EDGES, NODES), r"fields: .*got inf at index \[0\]; clean the input"),
        (lambda: dgn.walks(torch.ones(4), EDGES, NODES)(torch.ones(2)), r"x: expected 3 rows.*got shape \[2\]; give"),
        (lambda: dgn.walks(torch.ones(4), EDGES, NODES)(torch.ones(3) / 0), r"x: .*got inf at index \[0\]; clean"),
    ],
)
def test_wrong_input_is_refused_with_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()
