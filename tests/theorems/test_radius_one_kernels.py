"""Theorem: on a lattice, any kernel of radius 1 is a combination of B_av, B_dx and the identity.

With the axis fields u = (N / pi) arccos(phi), of even slope 1, an interior node has the rows (1/2, 0, 1/2) and
(-1/2, 0, 1/2), so that the kernel (x, y, z) has the constant coefficients a = x + z, b = z - x and c = y. That is,
x multiplies B_av - B_dx and z multiplies B_av + B_dx. A node at the first end of an axis has one neighbour, of weight
1: there B_av - B_dx is the node itself, and B_av + B_dx twice its neighbour less itself. The last end mirrors this.
"""

import math

import pytest
import torch
from torch.nn.functional import conv1d, conv2d, conv3d

import dgn
from dgn.testing import grid
from tests.small_graphs import both_dtypes, random

CONVOLVE = {1: conv1d, 2: conv2d, 3: conv3d}
SHAPES = [(9,), (7, 4), (4, 7), (5, 4, 3)]
shapes = pytest.mark.parametrize("shape", SHAPES, ids=str)


def axis_eigenvectors(shape):
    """The eigenvector of each axis as dgn.directions finds it, falling along the axis, with maximum cos(pi / 2N)."""
    directions = dgn.directions(*grid(*shape), k=4)
    columns = []
    for length in shape:
        which = (directions.eigenvalues[0] - (2 - 2 * math.cos(math.pi / length))).abs().argmin()
        wave = directions.potential[:, which]
        columns.append(wave / wave[0] * math.cos(math.pi / (2 * length)))
    return torch.stack(columns, dim=1)


def even_field(shape, dtype):
    potential = axis_eigenvectors(shape).arccos() * torch.tensor(shape) / math.pi
    return dgn.gradient(potential.to(dtype), grid(*shape)[0])


def cross(shape, dtype):
    """A random kernel on a node (y) and its neighbours along each axis (x before and z after it), and its tensor."""
    side, y = random(len(shape), 2, seed=1, dtype=dtype), random(1, seed=2, dtype=dtype).item()
    kernel = torch.zeros((3,) * len(shape), dtype=dtype)
    kernel[(1,) * len(shape)] = y
    for axis, (x, z) in enumerate(side.tolist()):
        for step, weight in ((0, x), (2, z)):
            kernel[(*[1] * axis, step, *[1] * (len(shape) - axis - 1))] = weight
    return side[:, 0], y, side[:, 1], kernel


def combine(x, y, z, signal, field, graph):
    """The sum over the axes of a B_av + b B_dx, and c times the identity, with constant coefficients."""
    average, slope = dgn.smoothing(field, *graph)(signal), dgn.derivative(field, *graph)(signal)
    return average @ (x + z) + slope @ (z - x) + y * signal


@both_dtypes
@shapes
def test_the_axis_fields_are_steps_of_1(shape, dtype):
    edge_index, _ = grid(*shape)
    place = torch.cartesian_prod(*(torch.arange(n) for n in shape)).view(-1, len(shape))
    steps = (place[edge_index[0]] - place[edge_index[1]]).to(dtype)
    torch.testing.assert_close(even_field(shape, dtype), steps, atol=1e-6, rtol=0)


@both_dtypes
@shapes
def test_constant_coefficients_give_the_convolution_in_the_interior(shape, dtype):
    signal, (x, y, z, kernel) = random(math.prod(shape), dtype=dtype), cross(shape, dtype)
    ours = combine(x, y, z, signal, even_field(shape, dtype), grid(*shape)).view(shape)
    theirs = CONVOLVE[len(shape)](signal.view(1, 1, *shape), kernel[None, None])[0, 0]
    interior = ours[(slice(1, -1),) * len(shape)]
    torch.testing.assert_close(interior, theirs, atol=1e-5 if dtype == torch.float32 else 1e-8, rtol=1e-5)


@both_dtypes
@shapes
def test_the_boundary_is_as_derived(shape, dtype):
    signal, (x, y, z, _) = random(math.prod(shape), dtype=dtype), cross(shape, dtype)
    ours = combine(x, y, z, signal, even_field(shape, dtype), grid(*shape)).view(shape)
    values = signal.view(shape)
    expected = y * values
    for axis in range(len(shape)):
        first, rest = values.narrow(axis, 0, 1), values.narrow(axis, 1, 1)
        last, before = values.narrow(axis, shape[axis] - 1, 1), values.narrow(axis, shape[axis] - 2, 1)
        inner = shape[axis] - 2
        backward = torch.cat([first, values.narrow(axis, 0, inner), 2 * before - last], dim=axis)
        forward = torch.cat([2 * rest - first, values.narrow(axis, 2, inner), last], dim=axis)
        expected = expected + x[axis] * backward + z[axis] * forward
    torch.testing.assert_close(ours, expected, atol=1e-5 if dtype == torch.float32 else 1e-8, rtol=1e-5)


@both_dtypes
@pytest.mark.parametrize("n", [5, 12])
def test_the_eigenvector_itself_needs_coefficients_of_each_node(n, dtype):
    """The weights of node i are in the ratio of sin(pi i / N) to sin(pi (i + 1) / N), the slopes of the cosine."""
    graph, signal = grid(n), random(n, dtype=dtype)
    (x,), y, (z,), kernel = cross((n,), dtype)
    field = dgn.gradient(-axis_eigenvectors((n,)).to(dtype), graph[0])
    slope = torch.sin(math.pi * torch.arange(n + 1, dtype=dtype) / n)
    before, after = slope[:-1] / (slope[:-1] + slope[1:]), slope[1:] / (slope[:-1] + slope[1:])
    a, b = (z / after + x / before) / 2, (z / after - x / before) / 2
    c = y - b * (before - after)
    average, derivative = dgn.smoothing(field, *graph)(signal)[:, 0], dgn.derivative(field, *graph)(signal)[:, 0]
    ours = (a * average + b * derivative + c * signal)[1:-1]
    theirs = conv1d(signal.view(1, 1, n), kernel[None, None])[0, 0]
    torch.testing.assert_close(ours, theirs, atol=1e-4 if dtype == torch.float32 else 1e-8, rtol=1e-4)


def test_constant_coefficients_do_not_suffice_for_the_eigenvector_itself():
    graph, signal = grid(12), random(12)
    x, y, z, kernel = cross((12,), torch.float64)
    ours = combine(x, y, z, signal, dgn.gradient(-axis_eigenvectors((12,)), graph[0]), graph)[1:-1]
    assert (ours - conv1d(signal.view(1, 1, 12), kernel[None, None])[0, 0]).abs().max() > 0.01
