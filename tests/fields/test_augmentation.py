"""Reflection, rotation and distortion as augmentations: reproducible, bounded and refused where meaningless."""

import pytest
import torch

import dgn
from dgn.testing import assert_antisymmetric, complete, cycle, disjoint_union, edge_cases, grid, path, star

GRAPHS = {"grid": grid(3, 4), "complete": complete(4), **edge_cases()}
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
both_dtypes = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])


def random(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=seeded(seed))


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def test_reflection_undoes_itself_and_swaps_the_two_sides():
    field = random(6, 2)
    assert torch.equal(dgn.reflect(dgn.reflect(field)), field)
    assert torch.equal(dgn.forward_field(dgn.reflect(field)), -dgn.backward_field(field))


def test_collinear_fields_are_refused_with_the_remedy():
    edge_index, num_nodes = path(4)
    first, second = random(6), random(6, seed=1)
    with pytest.raises(
        ValueError, match=r"angle: .*collinear fields at 2 of 4 nodes \(first: node 0\); pass collinear="
    ):
        dgn.rotate(first, second, 0.3, edge_index, num_nodes)


@both_dtypes
def test_collinear_nodes_are_kept_on_request(dtype):
    edge_index, num_nodes = path(4)
    first, second = random(6, dtype=dtype), random(6, seed=1, dtype=dtype)
    turned = dgn.rotate(first, second, 0.3, edge_index, num_nodes, collinear="keep")
    ends = (edge_index[1] == 0) | (edge_index[1] == 3)
    for field, result in zip((first, second), turned, strict=True):
        unit = dgn.normalize(field, edge_index, num_nodes, p=2)
        assert torch.equal(result[ends], unit[ends])
        assert bool(((result - unit)[~ends].abs() > 1e-3).all())


@pytest.mark.parametrize("factor", [1.0, -2.0, 1e-12])
def test_multiples_of_one_field_span_no_plane(factor):
    graph, field = complete(4), random(12)
    with pytest.raises(ValueError, match="collinear fields at 4 of 4 nodes"):
        dgn.rotate(field, factor * field, 0.3, *graph)


def test_a_field_of_zeros_spans_no_plane():
    graph, field = complete(4), random(12)
    for pair in ((field, 0 * field), (0 * field, field)):
        with pytest.raises(ValueError, match="collinear"):
            dgn.rotate(*pair, 0.3, *graph)
        rotated = dgn.rotate(*pair, 0.3, *graph, collinear="keep")
        for result, field in zip(rotated, pair, strict=True):
            assert torch.equal(result, dgn.normalize(field, *graph, p=2))


@every_graph
def test_where_both_fields_are_0_nothing_is_rotated_or_refused(graph):
    zeros = torch.zeros(graph[0].size(1), 2)
    assert not torch.cat(dgn.rotate(zeros, zeros, 0.3, *graph)).any()


@both_dtypes
def test_one_angle_per_node_rotates_each_node_by_its_angle(dtype):
    edge_index, num_nodes = complete(4)
    first, second = random(12, 2, dtype=dtype), random(12, 2, seed=1, dtype=dtype)
    angle = torch.tensor([0.0, 0.4, -1.0, 3.0], dtype=dtype)
    turned = torch.stack(dgn.rotate(first, second, angle, edge_index, num_nodes))
    for i in range(num_nodes):
        alone = torch.stack(dgn.rotate(first, second, float(angle[i]), edge_index, num_nodes))
        row = edge_index[1] == i
        torch.testing.assert_close(turned[:, row], alone[:, row])


def test_rotation_passes_gradients_to_the_fields_and_the_angle():
    graph = complete(4)
    first, second = random(12).requires_grad_(), random(12, seed=1).requires_grad_()
    angle = random(4, seed=2).requires_grad_()
    assert torch.autograd.gradcheck(lambda f, g, angle: dgn.rotate(f, g, angle, *graph), (first, second, angle))


@both_dtypes
@every_graph
@pytest.mark.parametrize("columns", [(), (2,)])
def test_distortion_keeps_antisymmetry_and_its_bound(graph, columns, dtype):
    edge_index, num_nodes = graph
    field = dgn.gradient(random(num_nodes, *columns, dtype=dtype), edge_index)
    noisy = dgn.distort(field, edge_index, 0.5, generator=seeded(1))
    assert_antisymmetric(noisy, edge_index)
    if edge_index.size(1):
        bound = 0.5 * field.abs().mean(dim=0)
        assert bool(((noisy - field).abs() <= bound * (1 + 1e-5)).all())
        assert bool(((noisy - field).abs().amax(dim=0) > 0.1 * bound).all())


@every_graph
def test_distortion_of_strength_0_changes_nothing(graph):
    field = random(graph[0].size(1), 2)
    assert torch.equal(dgn.distort(field, graph[0], 0.0, generator=seeded(1)), field)


def test_distortion_follows_its_generator():
    edge_index, field = grid(3, 3)[0], random(24)
    draw = [dgn.distort(field, edge_index, 1.0, generator=seeded(seed)) for seed in (1, 1, 2)]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])


def test_distortion_does_not_depend_on_the_order_of_the_edges():
    edge_index, field = grid(3, 3)[0], random(24, 2)
    order = torch.randperm(24, generator=seeded(5))
    noisy = dgn.distort(field, edge_index, 1.0, generator=seeded(1))
    torch.testing.assert_close(dgn.distort(field[order], edge_index[:, order], 1.0, generator=seeded(1)), noisy[order])


def test_distortion_leaves_self_loops_and_treats_parallel_edges_alike():
    edge_index = torch.tensor([[0, 0, 0, 1], [0, 1, 1, 0]])
    noise = dgn.distort(torch.ones(4), edge_index, 1.0, generator=seeded(1)) - 1
    assert noise[0] == 0
    assert noise[1] == noise[2] != 0
    torch.testing.assert_close(noise[3], -noise[1])


def test_noise_is_uniform_around_0():
    """On either side of a bound alone, the field would drift along the numbering of the nodes."""
    edge_index, n = cycle(2000)
    up = edge_index[0] > edge_index[1]
    field, potential = torch.ones(2 * n), torch.ones(n)
    on_edges = (dgn.distort(field, edge_index, 0.5, generator=seeded(1)) - field)[up]
    on_nodes = dgn.distort_potential(potential, 0.5, generator=seeded(2)) - potential
    for noise in (on_edges, on_nodes):
        expected = torch.linspace(-0.5, 0.5, n)
        assert (noise.sort().values - expected).abs().max() < 0.03


def test_noise_is_scaled_by_the_mean_of_its_own_graph():
    edge_index, _, batch = disjoint_union(cycle(20), cycle(20))
    field = torch.ones(80).index_fill(0, torch.arange(40, 80), 1e-3)
    noise = (dgn.distort(field, edge_index, 1.0, generator=seeded(1), batch=batch) - field).abs()
    assert 0.5 < noise[:40].max() <= 1
    assert 0.5e-3 < noise[40:].max() <= 1.001e-3


@both_dtypes
def test_distorted_potential_is_bounded_reproducible_and_scaled_by_graph(dtype):
    potential = random(40, 2, dtype=dtype) * torch.tensor([1.0, 1e3], dtype=dtype)
    batch = torch.arange(2).repeat_interleave(20)
    potential[20:] *= 1e-4
    draw = [dgn.distort_potential(potential, 0.5, generator=seeded(seed), batch=batch) for seed in (1, 1, 2)]
    assert torch.equal(draw[0], draw[1])
    assert not torch.equal(draw[0], draw[2])
    for graph in (slice(0, 20), slice(20, 40)):
        bound = 0.5 * potential[graph].abs().mean(dim=0)
        largest = (draw[0] - potential)[graph].abs().amax(dim=0)
        assert bool(((largest > 0.5 * bound) & (largest <= bound * (1 + 1e-5))).all())


def test_distorted_potential_of_strength_0_is_the_potential():
    potential = random(6, 2)
    assert torch.equal(dgn.distort_potential(potential, 0.0, generator=seeded(1)), potential)
    assert dgn.distort_potential(torch.zeros(0, 2), 1.0, generator=seeded(1)).shape == (0, 2)


EDGES, NODES = star(2)
ONES, TWOS = torch.ones(4), torch.ones(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dgn.rotate(ONES, TWOS, 0.1, EDGES, NODES), r"second: expected 4 rows.*got shape \[2\]; give one row"),
        (lambda: dgn.rotate(TWOS, ONES, 0.1, EDGES, NODES), r"expected 4 rows.*got shape \[2\]; give one row"),
        (lambda: dgn.rotate(ONES, ONES, 0.1, EDGES, NODES, "kept"), r"collinear: .*got 'kept'; did you mean 'keep'\?"),
        (lambda: dgn.rotate(ONES, ONES * torch.nan, 0.1, EDGES, NODES), r"second: .*got nan at index \[0\]; clean"),
        (lambda: dgn.distort(TWOS, EDGES, 0.1, generator=seeded(0)), r"field: expected 4 rows.*got shape \[2\]; give"),
        (lambda: dgn.distort_potential(TWOS / 0, 0.1, generator=seeded(0)), r"potential: .*got inf at .*; clean"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
def test_batch_may_have_any_integer_dtype(dtype: torch.dtype) -> None:
    potential, batch = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 1, 1])
    noisy = [
        dgn.distort_potential(potential, 0.5, generator=torch.Generator().manual_seed(0), batch=each)
        for each in (batch, batch.to(dtype))
    ]
    assert torch.equal(*noisy)
