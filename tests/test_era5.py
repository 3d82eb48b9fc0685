"""The graph of the sphere and the wind on its edges, of benchmarks/fields/era5.py."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parents[1]
DATA = ROOT.parent / "shared" / "data" / "era5" / "era5_sample.npz"
LAT, LON = torch.linspace(90, -90, 19), torch.arange(0.0, 360.0, 10.0)
INNER = slice(1, -1)  # nodes that are no poles


@pytest.fixture(scope="module")
def era5() -> Any:
    return pytest.importorskip("benchmarks.fields.era5", reason="the benchmarks are not part of this installation")


@pytest.fixture(scope="module")
def sphere(era5: Any) -> Any:
    return era5.make_sphere(LAT, LON)


def test_neighbours_are_those_of_the_grid_around_the_globe(sphere: Any) -> None:
    source, target = sphere.graph.edge_index
    n = 17 * 36 + 2
    assert sphere.graph.num_nodes == n
    degree = torch.bincount(target, minlength=n)
    assert degree[[0, -1]].tolist() == [36, 36]
    assert (degree[INNER] == 4).all()
    edges = set(zip(source.tolist(), target.tolist(), strict=True))
    assert len(edges) == source.numel()
    assert edges == {(target, source) for source, target in edges}
    # The first node below the pole, at longitude 0: east, west across the seam, the pole and south.
    assert {int(j) for j in source[target == 1]} == {2, 36, 0, 37}
    assert sphere.grid_index.tolist() == [0, *range(36, 18 * 36), 18 * 36]
    assert float(sphere.step.norm(dim=1).max()) < 1113  # ten degrees of a great circle


def test_an_eastward_wind_lies_on_the_edges_along_its_parallel(sphere: Any) -> None:
    source, target = sphere.graph.edge_index
    field, step = sphere.project(20 * sphere.east), sphere.step
    inner = (target > 0) & (target < sphere.graph.num_nodes - 1)
    parallel = inner & (sphere.latitude[source] == sphere.latitude[target])
    assert field[inner & ~parallel].abs().max() < 1e-12
    # 20 km an hour over the length of ten degrees: exact up to the curvature of the parallel.
    radius = 6371 * sphere.latitude[target].cos()
    eastward = (step * sphere.east[target]).sum(1).sign()
    expected = eastward * 20 / (radius * np.deg2rad(10))
    torch.testing.assert_close(field[parallel], expected[parallel], rtol=0.01, atol=0)
    turned = sphere.project(torch.linalg.cross(sphere.up, 20 * sphere.east))
    torch.testing.assert_close(turned[inner], sphere.project(20 * sphere.north)[inner])


def test_a_solid_rotation_is_antisymmetric_and_another_wind_is_not(sphere: Any) -> None:
    source, target = sphere.graph.edge_index
    place = {edge: k for k, edge in enumerate(zip(source.tolist(), target.tolist(), strict=True))}
    reverse = torch.tensor([place[edge] for edge in zip(target.tolist(), source.tolist(), strict=True)])
    axis = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)  # so that the wind blows over the poles
    rotation = sphere.project(torch.linalg.cross(axis.expand_as(sphere.up), sphere.up))
    torch.testing.assert_close(rotation[reverse], -rotation)
    jet = sphere.project(sphere.latitude.sin()[:, None] * sphere.north)
    assert (jet[reverse] + jet).abs().max() > 1e-5


def test_field_times_difference_is_twice_the_derivative_along_the_wind(era5: Any) -> None:
    sphere = era5.make_sphere(torch.linspace(90, -90, 181), torch.arange(0.0, 360.0))
    source, target = sphere.graph.edge_index
    slope = torch.tensor([0.3, -0.5, 0.8], dtype=torch.float64)
    h = sphere.up @ slope  # its gradient on the sphere is the tangent part of the slope
    wind = 30 * sphere.east - 10 * sphere.north
    total = torch.zeros_like(h).index_add(0, target, sphere.project(wind) * (h[source] - h[target]))
    torch.testing.assert_close(total[INNER] / 2, (wind @ slope)[INNER] / 6371, rtol=1e-3, atol=1e-6)


def test_a_grid_without_poles_is_refused(era5: Any) -> None:
    with pytest.raises(ValueError, match="from pole to pole"):
        era5.make_sphere(torch.linspace(80, -80, 17), LON)


def test_the_real_week_is_split_by_day_and_persistence_is_the_unit(era5: Any) -> None:
    if not DATA.exists():
        pytest.skip(f"{DATA} is not at hand; it is not part of the repository")
    sphere, frames = era5.read(DATA, 12)
    assert (frames.wind * sphere.up).sum(2).abs().max() < 1e-9  # tangent, at the poles too
    pairs = era5.make_pairs(sphere, frames, torch.device("cpu"))
    assert {name: len(batches) for name, batches in pairs.splits.items()} == {"train": 13, "val": 3, "test": 7}
    persistence = era5.scores(lambda batch: torch.zeros_like(batch.y), pairs)
    change = (frames.state[17:] - frames.state[16:-1]).square()
    weight = sphere.latitude.cos()
    expected = (change.mean(0) * weight[:, None]).sum(0) / weight.sum()
    assert persistence["test_K"] == pytest.approx(float(expected[0].sqrt()), abs=1e-3)
    assert persistence["test_hPa"] == pytest.approx(float(expected[1].sqrt()), abs=1e-3)
    assert persistence["test_K_ratio"] == persistence["test_hPa_ratio"] == 1
