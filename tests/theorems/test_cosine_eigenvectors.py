"""Lemma: a lattice has the eigenvalue 2 - 2 cos(pi / N) with a cosine along each axis of length N."""

import math

import pytest
import torch

import dgn
from dgn.testing import assert_same_eigenspace, grid, path

both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def eigenvalue(length):
    return 2 - 2 * math.cos(math.pi / length)


def cosine(shape, axis):
    """The vector 1 x ... x cos(pi (i + 1/2) / N) x ... x 1, of unit norm."""
    place = torch.cartesian_prod(*(torch.arange(n, dtype=torch.float64) for n in shape)).view(-1, len(shape))
    wave = torch.cos(math.pi * (place[:, axis] + 0.5) / shape[axis])
    return wave / wave.norm()


@pytest.mark.parametrize("n", [2, 3, 10, 41])
def test_every_eigenvector_of_a_path_is_a_cosine(n):
    directions = dgn.directions(*path(n), k=n - 1)
    for k in range(1, n):
        wave = torch.cos(math.pi * k * (torch.arange(n, dtype=torch.float64) + 0.5) / n)
        assert directions.eigenvalues[0, k - 1].item() == pytest.approx(2 - 2 * math.cos(math.pi * k / n), abs=1e-12)
        assert_same_eigenspace(directions.potential[:, [k - 1]], wave[:, None], tolerance=1e-10)


@pytest.mark.parametrize(
    "shape",
    [(9, 4), (4, 9), (12, 7), (5, 4, 3), (3, 5, 4), (5, 3, 2), (7, 5, 4, 3), (25, 17)],
    ids=lambda shape: f"{shape}",
)
def test_each_axis_of_a_lattice_has_its_cosine(shape):
    directions = dgn.directions(*grid(*shape), k=12)
    values = directions.eigenvalues[0]
    for axis, length in enumerate(shape):
        column = (values - eigenvalue(length)).abs().argmin()
        assert values[column].item() == pytest.approx(eigenvalue(length), abs=1e-9)
        assert not directions.repeated()[0, column]
        assert_same_eigenspace(directions.potential[:, [column]], cosine(shape, axis)[:, None], tolerance=1e-6)


@pytest.mark.parametrize(("shape", "axis"), [((9, 4), 0), ((4, 9), 1), ((3, 7, 5), 1)])
def test_direction_1_flows_along_the_longest_axis(shape, axis):
    directions = dgn.directions(*grid(*shape), k=1)
    assert_same_eigenspace(directions.potential, cosine(shape, axis)[:, None], tolerance=1e-10)


@pytest.mark.parametrize("shape", [(7, 5), (9, 4), (11, 4), (9, 3), (8, 4)], ids=lambda shape: f"{shape}")
def test_direction_m_is_the_first_along_the_short_side(shape):
    """m = ceil(N / M) on a grid of N > M; where M divides N, the long side has the same eigenvalue once more."""
    m = math.ceil(shape[0] / shape[1])
    directions = dgn.directions(*grid(*shape), k=m + 1)
    assert directions.eigenvalues[0, m - 1].item() == pytest.approx(eigenvalue(shape[1]), abs=1e-12)
    assert (directions.eigenvalues[0, : m - 1] < eigenvalue(shape[1]) - 1e-6).all()
    alone = shape[0] % shape[1] != 0
    assert directions.repeated()[0].tolist()[m - 1] == (not alone)
    if alone:
        assert_same_eigenspace(directions.potential[:, [m - 1]], cosine(shape, 1)[:, None], tolerance=1e-10)


@pytest.mark.parametrize("shape", [(5, 5), (4, 4, 4), (6, 3, 6), (20, 20)], ids=lambda shape: f"{shape}")
def test_equal_axes_share_an_eigenspace_that_holds_both_cosines(shape):
    longest = [axis for axis, length in enumerate(shape) if length == max(shape)]
    directions = dgn.directions(*grid(*shape), k=len(longest) + 1)
    assert directions.repeated()[0].tolist()[: len(longest)] == [True] * len(longest)
    assert not torch.isclose(directions.eigenvalues[0, -1], directions.eigenvalues[0, 0])
    waves = torch.stack([cosine(shape, axis) for axis in longest], dim=1)
    assert_same_eigenspace(directions.potential[:, : len(longest)], waves, tolerance=1e-6)


@both_dtypes
def test_the_cosine_solves_the_eigenvalue_equation(dtype):
    shape = (6, 4, 3)
    laplacian = dgn.laplacian(*grid(*shape)).to(dtype)
    for axis, length in enumerate(shape):
        wave = cosine(shape, axis).to(dtype)
        torch.testing.assert_close(laplacian @ wave, eigenvalue(length) * wave)
