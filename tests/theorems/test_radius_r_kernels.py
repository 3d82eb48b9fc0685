"""Theorem 2.4: on a lattice, any kernel of radius R is a combination of walks along the arccosine fields.

A step along F = (N / pi) grad arccos(phi), not normalised, is a shift by one node with zeros beyond the boundary. So
the walk of v_k steps along each axis k is the shift by v, and the convolution with zero padding is met at every node.
"""

import itertools
import math

import pytest
import torch
from torch.nn.functional import conv1d, conv2d, conv3d

import dgn
from dgn.testing import grid
from tests.small_graphs import both_dtypes, random

CONVOLVE = {1: conv1d, 2: conv2d, 3: conv3d}
CASES = [((8,), 2), ((8,), 3), ((7, 5), 2), ((7, 5), 3), ((5, 7), 2), ((5, 4, 3), 2)]
cases = pytest.mark.parametrize(("shape", "radius"), CASES, ids=str)


def arccosine_fields(shape, dtype):
    directions = dgn.directions(*grid(*shape), k=6)
    fields = []
    for length in shape:
        which = (directions.eigenvalues[0] - (2 - 2 * math.cos(math.pi / length))).abs().argmin()
        phase = dgn.arccosine(directions.potential, directions.eigenvalues)[:, which]
        phase = phase if phase[0] < phase[-1] else math.pi - phase  # of either sign
        fields.append(dgn.gradient(length / math.pi * phase, grid(*shape)[0]))
    return torch.stack(fields, dim=1).to(dtype)


def offsets(dimensions, radius):
    """All shifts of at most ``radius`` steps in total."""
    span = range(-radius, radius + 1)
    return [shift for shift in itertools.product(span, repeat=dimensions) if sum(map(abs, shift)) <= radius]


def name(shift):
    """The walk that goes straight along each axis."""
    return "".join(f"{math.copysign(k, v):+.0f}" * abs(v) for k, v in enumerate(shift, start=1)) or "0"


@both_dtypes
@cases
def test_walks_along_the_arccosine_fields_give_the_convolution_everywhere(shape, radius, dtype):
    dimensions = len(shape)
    signal = random(math.prod(shape), dtype=dtype)
    shifts = offsets(dimensions, radius)
    weights = random(len(shifts), seed=1, dtype=dtype)
    kernel = torch.zeros((2 * radius + 1,) * dimensions, dtype=dtype)
    for shift, weight in zip(shifts, weights, strict=True):
        kernel[tuple(v + radius for v in shift)] = weight
    family = dgn.walks(arccosine_fields(shape, dtype), *grid(*shape), radius=radius, identity=True, p=None)
    columns = [family.names.index(name(shift)) for shift in shifts]
    ours = (family(signal)[:, columns] @ weights).view(shape)
    theirs = CONVOLVE[dimensions](signal.view(1, 1, *shape), kernel[None, None], padding=radius)[0, 0]
    torch.testing.assert_close(ours, theirs, atol=1e-5 if dtype == torch.float32 else 1e-8, rtol=1e-5)


@pytest.mark.parametrize(("dimensions", "radius", "count"), [(1, 2, 5), (2, 2, 13), (2, 3, 25), (3, 2, 25)])
def test_a_kernel_has_one_straight_walk_for_each_of_its_entries(dimensions, radius, count):
    shape = (7, 5, 4)[:dimensions]
    family = dgn.walks(arccosine_fields(shape, torch.float64), *grid(*shape), radius=radius, identity=True, p=None)
    names = {name(shift) for shift in offsets(dimensions, radius)}
    assert len(names) == count
    assert names <= set(family.names)


def test_on_a_grid_the_order_of_steps_does_not_matter():
    shape, signal = (6, 4), random(24)
    family = dgn.walks(arccosine_fields(shape, torch.float64), *grid(*shape), radius=3, permutations=True, p=None)
    walked = dict(zip(family.names, family(signal).unbind(1), strict=True))
    torch.testing.assert_close(walked["+1+1-2"], walked["-2+1+1"], atol=1e-8, rtol=0)
    torch.testing.assert_close(walked["+1-2+1"], walked["+1+1-2"], atol=1e-8, rtol=0)
    assert (walked["+1+1-2"] - walked["+1+1+2"]).abs().max() > 0.1
