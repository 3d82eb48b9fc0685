"""Relabelling nodes, permuting edges and batching graphs change nothing but the order, from directions to operators."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dgn
from dgn.testing import (
    assert_batch_independent,
    assert_permutation_equivariant,
    complete,
    cycle,
    disjoint_union,
    grid,
    path,
    random_graph,
    star,
)
from tests.small_graphs import random

TOLERANCE = {torch.float64: 1e-7, torch.float32: 1e-3}
both_dtypes = pytest.mark.parametrize("dtype", list(TOLERANCE), ids=["float64", "float32"])


def unique_potential(graph, dtype):
    """Two directions, 0 where the graph does not decide on a vector or its sign."""
    directions = dgn.directions(graph, k=2)
    unique = directions.sign_is_canonical & ~directions.repeated(1e-3)
    return (directions.potential * unique[directions.component]).to(dtype)


def unsigned_potential(graph, dtype):
    """Two directions, 0 where the graph does not decide on a vector; signs may be arbitrary."""
    directions = dgn.directions(graph, k=2)
    return (directions.potential * ~directions.repeated(1e-3)[directions.component]).to(dtype)


def field_of(graph, dtype):
    return dgn.gradient(unique_potential(graph, dtype), graph)


PIPELINES = {
    "av": lambda graph, x: dgn.smoothing(field_of(graph, x.dtype), graph)(x),
    "dx": lambda graph, x: dgn.derivative(field_of(graph, x.dtype), graph)(x),
    "av-center": lambda graph, x: dgn.smoothing(field_of(graph, x.dtype), graph, balance="center")(x),
    "dx-pad": lambda graph, x: dgn.derivative(field_of(graph, x.dtype), graph, padding="zero")(x),
    "dx-graph": lambda graph, x: dgn.derivative(field_of(graph, x.dtype), graph, scope="graph")(x),
    "soft": lambda graph, x: dgn.derivative(dgn.harden(field_of(graph, x.dtype), graph, temperature=4.0), graph)(x),
    "walks": lambda graph, x: dgn.walks(field_of(graph, x.dtype), graph, radius=2, permutations=True)(x),
    "unsigned": lambda graph, x: torch.cat(
        [
            dgn.smoothing(dgn.gradient(unsigned_potential(graph, x.dtype), graph), graph)(x),
            dgn.derivative(dgn.gradient(unsigned_potential(graph, x.dtype), graph), graph)(x).abs(),
        ],
        dim=1,
    ),
}
pipelines = pytest.mark.parametrize("function", PIPELINES.values(), ids=PIPELINES)


def collection():
    """Many shapes side by side, symmetric ones and ones without symmetry, of one and more components."""
    wild = [random_graph(n, 0.35, torch.Generator().manual_seed(n)) for n in (6, 9, 12, 14, 17, 20)]
    return dgn.as_graph(*disjoint_union(*wild, grid(3, 4), star(3), path(1), cycle(5), complete(4), path(6)))


@both_dtypes
@pipelines
def test_functions_are_permutation_equivariant(function, dtype):
    graph = collection()
    x = random(graph.num_nodes, 2, dtype=dtype)
    assert_permutation_equivariant(function, graph, [x], tolerance=TOLERANCE[dtype])


@both_dtypes
@pipelines
def test_functions_are_batch_independent(function, dtype):
    graph = collection()
    x = random(graph.num_nodes, 2, dtype=dtype)
    assert_batch_independent(function, graph, [x], tolerance=TOLERANCE[dtype])


def test_the_test_graphs_have_unique_directions():
    graph = collection()
    potential = unique_potential(graph, torch.float64)
    per_graph = torch.zeros(graph.num_graphs, 2).double().index_add(0, graph.batch, potential.square())
    assert (per_graph > 0.5).sum(dim=0).min() >= 4


@settings(derandomize=True, deadline=None, max_examples=25, database=None)
@given(n=st.integers(0, 10), p=st.floats(0.1, 0.7), seed=st.integers(0, 2**16))
def test_functions_are_permutation_equivariant_on_random_graphs(n, p, seed):
    edge_index, num_nodes = random_graph(n, p, torch.Generator().manual_seed(seed))
    graph = dgn.as_graph(edge_index, num_nodes, torch.zeros(n, dtype=torch.long))
    for function in PIPELINES.values():
        assert_permutation_equivariant(function, graph, [random(n, 2, seed=seed)], tolerance=1e-6)


def test_hardening_is_permutation_equivariant():
    graph = collection()

    def hard(graph):
        field = field_of(graph, torch.float64)
        return torch.stack([dgn.harden(field, graph), dgn.harden(field, graph, split=True)], dim=1)

    assert_permutation_equivariant(hard, graph, output="edge")
    assert_batch_independent(hard, graph, output="edge")


@pytest.mark.parametrize("normalization", [None, "rw", "sym"])
def test_directions_are_permutation_equivariant_and_batch_independent(normalization):
    def absolute(graph):
        directions = dgn.directions(graph, k=2, normalization=normalization)
        return directions.potential.abs() * ~directions.repeated(1e-3)[directions.component]

    def signed(graph):
        directions = dgn.directions(graph, k=2, normalization=normalization)
        return directions.potential * (directions.sign_is_canonical & ~directions.repeated(1e-3))[directions.component]

    for function in (absolute, signed):
        assert_permutation_equivariant(function, collection(), tolerance=1e-8)
        assert_batch_independent(function, collection(), tolerance=1e-8)


def test_rotated_fields_are_permutation_equivariant_and_batch_independent():
    graph = dgn.as_graph(*disjoint_union(complete(5), cycle(6), grid(3, 3)))
    first, second = random(2, graph.num_edges)

    def rotated(graph, first, second):
        return torch.stack(dgn.rotate(first, second, 0.6, graph), dim=1)

    assert_permutation_equivariant(rotated, graph, [], [first, second], "edge")
    assert_batch_independent(rotated, graph, [], [first, second], "edge")
