"""The finite-volume scheme against exact solutions, its conservation laws, and the packed trajectories."""

import math

import numpy as np
import pytest
import torch

import dgn
from dgn.data.benchmark import load_benchmark
from dgn.data.datasets import transport
from dgn.data.datasets.transport import Obstacle, evolve, generate_transport, refine, transport_matrix, triangulate

DISC = [Obstacle(np.array([0.5, 0.45]), 0.15)]


def mesh(spacing, obstacles=(), seed=0):
    return triangulate(list(obstacles), spacing, np.random.default_rng(seed))


def box(points):
    """A vortex in the unit square, with no flow through its walls or the disc."""
    clear = np.maximum(((points - DISC[0].center) ** 2).sum(axis=-1) - DISC[0].radius ** 2, 0.0)
    return (points * (1 - points)).prod(axis=-1) * clear


def test_triangles_cover_the_square_without_the_obstacle():
    triangulation = mesh(0.05, DISC)
    area = transport.signed_area(*triangulation)
    assert (area > 0).all()
    assert area.sum() == pytest.approx(1 - math.pi * 0.15**2, rel=0.01)
    euler = (
        len(triangulation.position) - transport.mesh_edges(triangulation).shape[1] // 2 + len(triangulation.triangles)
    )
    assert euler == 0  # one hole
    finer = refine(triangulation)
    assert np.array_equal(finer.position[: len(triangulation.position)], triangulation.position)
    assert transport.signed_area(*finer).sum() == pytest.approx(area.sum())
    border = triangulation.position[np.unique(transport.boundary_edges(triangulation))]
    on_wall = np.minimum(border, 1 - border).min(axis=1) < 1e-12
    on_disc = np.abs(np.linalg.norm(border - DISC[0].center, axis=1) - DISC[0].radius) < 1e-12
    assert (on_wall | on_disc).all()


def test_constants_stay_and_the_integral_is_conserved():
    triangulation = mesh(0.06, DISC)
    matrix = transport_matrix(triangulation, box, 0.01)
    size = float(abs(matrix).max())
    assert np.abs(matrix.sum(axis=1)).max() <= 1e-12 * size  # no divergence
    area = np.zeros(len(triangulation.position))
    np.add.at(area, triangulation.triangles, (transport.signed_area(*triangulation) / 3)[:, None])
    assert np.abs(area @ matrix).max() <= 1e-12 * size
    start = np.random.default_rng(0).random((len(area), 2))
    late = evolve(matrix, start, 0.3, 2)
    np.testing.assert_allclose(area @ late[2], area @ start, rtol=1e-10)


def decay_error(spacing):
    """Of a cosine that only spreads: exp(-2 pi^2 kappa t)."""
    triangulation = mesh(spacing)
    wave = np.cos(math.pi * triangulation.position).prod(axis=1, keepdims=True)
    matrix = transport_matrix(triangulation, lambda points: np.zeros(points.shape[:-1]), 0.1)
    late = evolve(matrix, wave, 0.25, 2)[2]
    return float(np.abs(late - math.exp(-2 * math.pi**2 * 0.1 * 0.5) * wave).max())


def turn(points):
    """Once a unit of time about the centre, counter-clockwise, and at rest near the walls."""
    return -math.pi * np.minimum(((points - 0.5) ** 2).sum(axis=-1), 0.2)


def turning_error(spacing):
    """Of a bump that turns about the centre, once, while it spreads: a Gaussian whose variance grows by 2 kappa t."""
    triangulation = mesh(spacing)
    center, width, kappa = np.array([0.5, 0.7]), 0.06, 0.0005
    matrix = transport_matrix(triangulation, turn, kappa)

    def bump(angle, variance):
        arm = center - 0.5
        turned = 0.5 + np.array(
            [arm[0] * math.cos(angle) - arm[1] * math.sin(angle), arm[0] * math.sin(angle) + arm[1] * math.cos(angle)]
        )
        distance = ((triangulation.position - turned) ** 2).sum(axis=1, keepdims=True)
        return width**2 / variance * np.exp(-distance / (2 * variance))

    late = evolve(matrix, bump(0.0, width**2), 0.125, 2)[2]  # a quarter of a turn, counter-clockwise
    return float(np.abs(late - bump(math.pi / 2, width**2 + 2 * kappa * 0.25)).max())


def test_diffusion_has_the_exact_rate():
    errors = [decay_error(spacing) for spacing in (0.1, 0.025)]
    assert errors[1] < 0.002
    assert errors[1] < errors[0] / 6


def test_a_turning_bump_arrives_where_and_as_it_should():
    errors = [turning_error(spacing) for spacing in (0.02, 0.01)]
    assert errors[1] < 0.07
    assert errors[1] < errors[0] / 3.5  # of second order: 4


def test_the_wind_is_that_of_the_stream_function():
    points = np.random.default_rng(0).uniform(0.1, 0.9, size=(50, 2))
    wind = transport.wind_of(lambda p: p[..., 0] ** 2 * p[..., 1], points)
    expected = np.stack([points[:, 0] ** 2, -2 * points[:, 0] * points[:, 1]], axis=1)
    np.testing.assert_allclose(wind, expected, atol=1e-8)


@pytest.fixture(scope="module")
def graphs():
    return generate_transport((2, 1, 1), trajectories=2, frames=3, spacing=0.12, seed=3)


def test_packed_trajectories_agree_with_each_other(graphs):
    assert graphs.graphs["split"].tolist() == [0, 0, 0, 0, 1, 1, 2, 2]
    nodes, graph = graphs.nodes, graphs.graph
    frames = nodes["frames"]
    assert 0.5 < float(frames[:, 0].std()) < 1.5
    assert torch.equal(nodes["x"][:, 0], frames[:, 0])
    torch.testing.assert_close(nodes["y"][:, 0], frames[:, 1] - frames[:, 0])
    step = nodes["position"][graph.source] - nodes["position"][graph.target]
    wind = nodes["x"][graph.target, 1:3]
    torch.testing.assert_close(graphs.edges["edge_field"][:, 0], (wind * step).sum(dim=1), atol=1e-6, rtol=1e-5)
    left = torch.stack([-wind[:, 1], wind[:, 0]], dim=1)
    torch.testing.assert_close(graphs.edges["edge_field"][:, 1], (left * step).sum(dim=1), atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(graphs.edges["edge_attr"][:, :2], step / transport.SPACING)
    first = slice(0, int(graphs.node_pointer[1]))
    assert float(nodes["x"][first, 1:3].square().sum(dim=1).mean().sqrt()) == pytest.approx(1, rel=1e-3)


def test_the_scalar_moves_downwind(graphs):
    """The change is minus the derivative along the wind, for the most part: the sign of the field is physical."""
    slope = dgn.directional_derivative(graphs.nodes["x"][:, 0], graphs.edges["edge_field"], graphs.graph)[:, 0]
    change = graphs.nodes["y"][:, 0]
    correlation = float(torch.corrcoef(torch.stack([slope, change]))[0, 1])
    assert correlation < -0.5


def test_the_integral_over_cells_is_nearly_conserved(graphs):
    area, frames = graphs.nodes["area"], graphs.nodes["frames"]
    assert area.sum() / len(graphs) == pytest.approx(1, abs=0.15)  # the unit square without obstacles
    total = graphs.graph.sum_over_graph(area[:, None] * frames)
    size = graphs.graph.sum_over_graph(area[:, None] * frames.abs())
    assert ((total - total[:, :1]).abs() < 0.1 * size).all()


def test_meshes_have_spacings_of_a_range():
    graphs = generate_transport((4, 1, 1), trajectories=1, frames=1, spacing=(0.1, 0.2), seed=3)
    sizes = graphs.node_pointer.diff()
    assert len(set(sizes.tolist())) > 3
    assert sizes.max() > 2 * sizes.min()


def test_graphs_do_not_depend_on_the_number_of_processes(graphs):
    again = generate_transport((2, 1, 1), trajectories=2, frames=3, spacing=0.12, seed=3, workers=2)
    assert again.checksum() == graphs.checksum()


def test_the_same_seed_gives_the_same_graphs(graphs):
    again = generate_transport((2, 1, 1), trajectories=2, frames=3, spacing=0.12, seed=3)
    other = generate_transport((2, 1, 1), trajectories=2, frames=3, spacing=0.12, seed=4)
    assert torch.equal(again.nodes["frames"], graphs.nodes["frames"])
    assert again.num_nodes != other.num_nodes or not torch.equal(again.nodes["x"], other.nodes["x"])


def test_meaningless_sizes_are_refused():
    with pytest.raises(ValueError, match=r"expected counts of 1 or more, a spacing up to 0\.25"):
        generate_transport((1, 0, 1))
    with pytest.raises(ValueError, match=r"a spacing up to 0\.25"):
        generate_transport(spacing=0.5)


def test_the_benchmark_has_its_name(tmp_path, graphs):
    graphs.save(tmp_path / "transport.safetensors")
    benchmark = load_benchmark("transport", tmp_path)
    assert (benchmark.objective, benchmark.metric, benchmark.num_targets) == ("node-regression", "mae", 1)
    assert benchmark.coordinates
