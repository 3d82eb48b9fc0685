"""Section 2.10: fields decompose and rotate in their plane; reflection leaves |B_dx x| and B_av unchanged."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dgn
from dgn.testing import complete, cycle, grid, hypercube, path
from tests.small_graphs import both_dtypes, random

GRAPHS = {"cycle": cycle(7), "complete": complete(5), "hypercube": hypercube(3), "grid": grid(3, 4)}
named_graphs = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


def two_fields(graph, dtype=torch.float64, seed=0):
    """Two fields of two directions; on every node of two neighbours or more they span a plane."""
    return random(2, graph[0].size(1), 2, seed=seed, dtype=dtype)


def per_edge(values, graph):
    return values[graph[0][1]]


def close(got, expected, loose=1):
    precision = 1e-4 if expected.dtype == torch.float32 else 1e-10
    torch.testing.assert_close(got, expected, atol=loose * precision, rtol=loose * precision)


def perpendicular(first, second, graph):
    """The normalised part of the second field perpendicular to the first, row by row."""
    edge_index, num_nodes = graph
    result = torch.zeros_like(second)
    for i in range(num_nodes):
        row = edge_index[1] == i
        for k in range(second.size(1)):
            unit = first[row, k] / first[row, k].norm()
            rest = second[row, k] - (second[row, k] @ unit) * unit
            result[row, k] = rest / rest.norm()
    return result


@both_dtypes
@named_graphs
def test_the_second_field_decomposes_along_the_first(graph, dtype):
    first, second = two_fields(graph, dtype)
    unit_1, unit_2 = (dgn.normalize(field, *graph, p=2) for field in (first, second))
    alpha = dgn.inner_product(unit_1, unit_2, *graph).arccos()
    rest = perpendicular(first, second, graph)
    close(unit_2, per_edge(alpha.cos(), graph) * unit_1 + per_edge(alpha.sin(), graph) * rest)


@both_dtypes
@named_graphs
@pytest.mark.parametrize("angle", [0.0, 0.4, math.pi / 2, -2.0])
def test_rotation_is_as_defined(graph, angle, dtype):
    first, second = two_fields(graph, dtype)
    unit_1, unit_2 = (dgn.normalize(field, *graph, p=2) for field in (first, second))
    alpha = dgn.inner_product(unit_1, unit_2, *graph).arccos()
    rest = perpendicular(first, second, graph)
    turned = dgn.rotate(first, second, angle, *graph)
    close(turned[0], math.cos(angle) * unit_1 + math.sin(angle) * rest)
    close(turned[1], per_edge((angle + alpha).cos(), graph) * unit_1 + per_edge((angle + alpha).sin(), graph) * rest)


@both_dtypes
@named_graphs
def test_rotating_the_first_field_by_the_angle_between_them_gives_the_second(graph, dtype):
    first, second = two_fields(graph, dtype)[..., 0]
    unit_1, unit_2 = (dgn.normalize(field, *graph, p=2) for field in (first, second))
    alpha = dgn.inner_product(unit_1, unit_2, *graph).arccos()
    close(dgn.rotate(first, second, alpha, *graph)[0], unit_2)
    close(dgn.rotate(first, second, -alpha, *graph)[1], unit_1)


@settings(derandomize=True, deadline=None, max_examples=20, database=None)
@given(a=st.floats(-7, 7), b=st.floats(-7, 7), seed=st.integers(0, 2**16))
def test_angles_add_up(a, b, seed):
    graph = complete(4)
    first, second = two_fields(graph, seed=seed)
    once = dgn.rotate(first, second, a, *graph)
    close(torch.stack(dgn.rotate(*once, b, *graph)), torch.stack(dgn.rotate(first, second, a + b, *graph)), loose=1e3)


@both_dtypes
@named_graphs
def test_a_full_turn_changes_nothing_and_half_a_turn_reflects(graph, dtype):
    first, second = two_fields(graph, dtype)
    unit = torch.stack([dgn.normalize(field, *graph, p=2) for field in (first, second)])
    close(torch.stack(dgn.rotate(first, second, 2 * math.pi, *graph)), unit)
    close(torch.stack(dgn.rotate(first, second, math.pi, *graph)), dgn.reflect(unit))


@both_dtypes
@named_graphs
def test_rows_stay_of_unit_norm_and_keep_their_angle(graph, dtype):
    first, second = two_fields(graph, dtype)
    unit_1, unit_2 = (dgn.normalize(field, *graph, p=2) for field in (first, second))
    turned_1, turned_2 = dgn.rotate(first, second, 0.7, *graph)
    for field in (turned_1, turned_2):
        norm = dgn.row_norm(field, *graph, p=2)
        close(norm, torch.ones_like(norm))
    close(dgn.inner_product(turned_1, turned_2, *graph), dgn.inner_product(unit_1, unit_2, *graph))


def test_a_quarter_turn_of_the_axes_of_a_torus_takes_right_to_up_and_up_to_left():
    node = torch.arange(16).view(4, 4)
    right, up = (torch.stack([node.roll(-1, axis).flatten(), node.flatten()]) for axis in (0, 1))
    edge_index = torch.cat([right, right.flip(0), up, up.flip(0)], dim=1)
    ones, zeros = torch.ones(16, dtype=torch.float64), torch.zeros(16, dtype=torch.float64)
    first, second = torch.cat([ones, -ones, zeros, zeros]), torch.cat([zeros, zeros, ones, -ones])
    turned = dgn.rotate(first, second, math.pi / 2, edge_index, 16)
    close(turned[0], second / 2**0.5)
    close(turned[1], -first / 2**0.5)


@both_dtypes
@named_graphs
def test_reflection_leaves_the_absolute_derivative_and_the_average(graph, dtype):
    field, x = random(graph[0].size(1), 2, dtype=dtype), random(graph[1], 3, seed=1, dtype=dtype)
    mirrored = dgn.reflect(field)
    assert torch.equal(dgn.derivative(mirrored, *graph)(x).abs(), dgn.derivative(field, *graph)(x).abs())
    assert torch.equal(dgn.smoothing(mirrored, *graph)(x), dgn.smoothing(field, *graph)(x))
    assert not torch.equal(dgn.derivative(mirrored, *graph)(x), dgn.derivative(field, *graph)(x))


def test_fields_of_a_path_span_no_plane_at_its_ends():
    graph = path(5)
    with pytest.raises(ValueError, match="collinear"):
        dgn.rotate(*two_fields(graph), 0.2, *graph)
