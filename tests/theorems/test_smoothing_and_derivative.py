"""Theorems 2.1 and 2.2: B_av is a mean and B_dx a derivative along the field; appendix A.1: mean and Laplacian."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dgn
from dgn.testing import (
    assert_derivative,
    assert_reflection,
    assert_smoothing,
    complete,
    cycle,
    edge_cases,
    grid,
    hypercube,
    path,
    random_graph,
    star,
)
from tests.small_graphs import both_dtypes, random

NAMED = {
    "path": path(6),
    "cycle": cycle(5),
    "grid": grid(4, 3),
    "complete": complete(5),
    "star": star(4),
    "hypercube": hypercube(3),
    **edge_cases(),
}
named_graphs = pytest.mark.parametrize("graph", NAMED.values(), ids=NAMED)
quickly = settings(derandomize=True, deadline=None, max_examples=20, database=None)
any_graph = given(n=st.integers(0, 8), p=st.floats(0, 1), seed=st.integers(0, 2**16))


def check_theorems(graph, dtype, seed=0):
    edge_index, num_nodes = graph
    x, field = random(num_nodes, 2, seed=seed, dtype=dtype), random(edge_index.size(1), 2, seed=seed + 1, dtype=dtype)
    average, slope = dgn.smoothing(field, *graph)(x), dgn.derivative(field, *graph)(x)
    for i in range(num_nodes):
        here = edge_index[1] == i
        around, along = x[edge_index[0, here]].numpy(), field[here].numpy()
        for k in range(2):
            if here.any():
                mean = np.average(around, axis=0, weights=np.abs(along[:, k]))
                unit = along[:, k] / np.abs(along[:, k]).sum()
                derivative = unit @ (around - x[i].numpy())
            else:
                mean = derivative = np.zeros(2)
            torch.testing.assert_close(average[i, k], torch.as_tensor(mean, dtype=dtype))
            torch.testing.assert_close(slope[i, k], torch.as_tensor(derivative, dtype=dtype))


def check_laws(graph, dtype, seed=0):
    edge_index, num_nodes = graph
    x, field = random(num_nodes, 2, seed=seed, dtype=dtype), random(edge_index.size(1), 2, seed=seed + 1, dtype=dtype)
    assert_smoothing(dgn.smoothing(field, *graph), num_nodes, dtype)
    assert_derivative(dgn.derivative(field, *graph), num_nodes, dtype)
    assert_reflection(lambda field: dgn.smoothing(field, *graph), field, x, parity=1)
    assert_reflection(lambda field: dgn.derivative(field, *graph), field, x, parity=-1)


@both_dtypes
@named_graphs
def test_weighted_mean_and_derivative_on_named_graphs(graph, dtype):
    check_theorems(graph, dtype)


@quickly
@any_graph
def test_weighted_mean_and_derivative_on_random_graphs(n, p, seed):
    check_theorems(random_graph(n, p, torch.Generator().manual_seed(seed)), torch.float64, seed)


@both_dtypes
@named_graphs
def test_laws_on_named_graphs(graph, dtype):
    check_laws(graph, dtype)


@quickly
@any_graph
def test_laws_on_random_graphs(n, p, seed):
    check_laws(random_graph(n, p, torch.Generator().manual_seed(seed)), torch.float32, seed)


@both_dtypes
@named_graphs
def test_derivative_is_the_directional_derivative_of_the_unit_field(graph, dtype):
    edge_index, num_nodes = graph
    x, field = random(num_nodes, 3, dtype=dtype), random(edge_index.size(1), 2, seed=1, dtype=dtype)
    unit = dgn.normalize(field, *graph)
    torch.testing.assert_close(dgn.derivative(field, *graph)(x), dgn.directional_derivative(x, unit, edge_index))


@both_dtypes
@named_graphs
def test_average_stays_between_the_neighbours(graph, dtype):
    edge_index, num_nodes = graph
    x = random(num_nodes, dtype=dtype)
    average = dgn.smoothing(random(edge_index.size(1), 1, seed=1, dtype=dtype), *graph)(x)[:, 0]
    for i in edge_index[1].unique():
        around = x[edge_index[0, edge_index[1] == i]]
        assert around.min() - 1e-6 <= average[i] <= around.max() + 1e-6


@both_dtypes
@pytest.mark.parametrize("constant", [1.0, -3.0, 1e-9])
@pytest.mark.parametrize(
    "name", ["path", "cycle", "grid", "complete", "star", "hypercube", "isolated node", "no edges"]
)
def test_constant_field_gives_the_mean_and_the_normalised_laplacian(name, constant, dtype):
    edge_index, num_nodes = NAMED[name]
    signs = torch.where(random(edge_index.size(1), dtype=dtype) > 0, 1, -1)
    laplacian = dgn.laplacian(edge_index, num_nodes).to_dense().to(dtype)
    degree = laplacian.diagonal()
    inverse = torch.where(degree > 0, 1 / degree, 0.0).diag()
    mean = inverse @ (degree.diag() - laplacian)
    field = torch.full((edge_index.size(1), 1), constant, dtype=dtype)
    torch.testing.assert_close(dgn.smoothing(field * signs[:, None], edge_index, num_nodes).dense(), mean)
    sign = 1 if constant > 0 else -1
    torch.testing.assert_close(dgn.derivative(field, edge_index, num_nodes).dense(), -sign * inverse @ laplacian)
