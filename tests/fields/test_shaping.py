"""Forward and backward parts, hardening and the arcsine."""

import pytest
import torch

import dgn
from dgn.testing import (
    assert_batch_independent,
    assert_permutation_equivariant,
    complete,
    disjoint_union,
    grid,
    path,
    star,
)
from tests.small_graphs import both_dtypes, every_graph, random

temperatures = pytest.mark.parametrize("temperature", [None, 0.5, 8.0])
splits = pytest.mark.parametrize("split", [False, True])


@both_dtypes
def test_forward_and_backward_are_the_two_parts_of_a_field(dtype):
    field = random(9, 2, dtype=dtype)
    forward, backward = dgn.forward_field(field), dgn.backward_field(field)
    assert torch.equal(forward + backward, field)
    assert torch.equal(backward, -dgn.forward_field(-field))
    assert bool((forward >= 0).all())
    assert not (forward * backward).any()
    assert bool(((forward > 0) == (field > 0)).all())


def by_rows(field, edge_index, num_nodes, decide):
    """Apply ``decide`` to each row of a field of one column."""
    result = torch.zeros_like(field)
    for i in range(num_nodes):
        row = edge_index[1] == i
        if row.any():
            result[row] = decide(field[row])
    return result


def one_hot(values):
    return torch.nn.functional.one_hot(values.argmax(), len(values)).to(values)


def split_softmax(row, temperature):
    exponential = torch.exp(temperature * row.abs())
    parts = [exponential * (row > 0), exponential * (row < 0)]
    first, second = (part / part.sum() if part.any() else part for part in parts)
    return first - second


@both_dtypes
@every_graph
def test_hard_field_chooses_the_largest_component_of_each_row(graph, dtype):
    field = random(graph[0].size(1), dtype=dtype)
    expected = by_rows(field, *graph, lambda row: row.sign() * one_hot(row.abs()))
    assert torch.equal(dgn.harden(field, *graph), expected)


@both_dtypes
@every_graph
def test_split_hard_field_chooses_on_both_sides(graph, dtype):
    field = random(graph[0].size(1), dtype=dtype)
    expected = by_rows(field, *graph, lambda row: one_hot(row) * (row > 0) - one_hot(-row) * (row < 0))
    assert torch.equal(dgn.harden(field, *graph, split=True), expected)


@both_dtypes
@every_graph
@pytest.mark.parametrize("temperature", [0.3, 5.0])
def test_soft_field_is_the_softmax_of_each_row(graph, temperature, dtype):
    field = random(graph[0].size(1), dtype=dtype)
    field[::3] = 0  # the softmax gives weight to zeros too, and the sign removes it
    expected = by_rows(field, *graph, lambda row: row.sign() * torch.softmax(temperature * row.abs(), 0))
    torch.testing.assert_close(dgn.harden(field, *graph, temperature), expected)


@both_dtypes
@every_graph
def test_split_soft_field_is_the_softmax_of_each_side(graph, dtype):
    field = random(graph[0].size(1), dtype=dtype)
    expected = by_rows(field, *graph, lambda row: split_softmax(row, 2.0))
    torch.testing.assert_close(dgn.harden(field, *graph, 2.0, split=True), expected)


@both_dtypes
@splits
def test_argmax_is_the_limit_of_large_temperatures(split, dtype):
    graph = complete(5)
    field = random(20, 3, dtype=dtype)
    torch.testing.assert_close(dgn.harden(field, *graph, 1e5, split=split), dgn.harden(field, *graph, split=split))


@both_dtypes
@temperatures
@splits
def test_hardening_is_odd(temperature, split, dtype):
    graph, field = complete(5), random(20, 3, dtype=dtype)
    hard = dgn.harden(field, *graph, temperature, split)
    assert torch.equal(dgn.harden(-field, *graph, temperature, split), -hard)


@both_dtypes
@temperatures
def test_rows_sum_to_1_and_each_side_does_when_split(temperature, dtype):
    graph, field = grid(3, 3), random(24, 2, dtype=dtype)
    row_sums = dgn.divergence(dgn.harden(field, *graph, temperature).abs(), *graph)
    torch.testing.assert_close(row_sums, torch.ones_like(row_sums))
    split = dgn.harden(field, *graph, temperature, split=True)
    for part, side in ((dgn.forward_field(split), field > 0), (-dgn.backward_field(split), field < 0)):
        present = dgn.divergence(side.to(dtype), *graph) > 0
        torch.testing.assert_close(dgn.divergence(part, *graph), present.to(dtype))


@both_dtypes
def test_equal_components_share_the_weight(dtype):
    edge_index, num_nodes = torch.tensor([[1, 2, 3], [0, 0, 0]]), 4
    tie = torch.tensor([0.3, -0.1 * 3, 0.2], dtype=dtype)  # 0.1 * 3 is 0.3 up to rounding
    assert dgn.harden(tie, edge_index, num_nodes).tolist() == [0.5, -0.5, 0.0]
    assert dgn.harden(tie, edge_index, num_nodes, split=True).tolist() == [1.0, -1.0, 0.0]


@temperatures
@splits
def test_noise_on_a_row_of_zeros_selects_nothing(temperature, split):
    edge_index, num_nodes = path(3)
    field = torch.tensor([1.0, 1e-17, -1.0, -1e-17])
    assert not dgn.harden(field, edge_index, num_nodes, temperature, split)[edge_index[1] == 2].any()


def test_argmax_is_invariant_to_the_scale():
    graph, field = grid(3, 3), random(24, 2)
    assert torch.equal(dgn.harden(1e-12 * field, *graph), dgn.harden(field, *graph))


@both_dtypes
def test_forward_and_backward_copy_the_neighbour_that_the_field_points_to(dtype):
    edge_index, num_nodes = torch.tensor([[1, 2, 3, 4], [0, 0, 0, 0]]), 5
    field = torch.tensor([0.3, 0.5, -0.6, -0.1], dtype=dtype)
    x = torch.tensor([0.0, 1.0, 10.0, 100.0, 1000.0], dtype=dtype)
    hard = dgn.harden(field, edge_index, num_nodes, split=True)
    copies = [dgn.smoothing(part(hard), edge_index, num_nodes)(x) for part in (dgn.forward_field, dgn.backward_field)]
    assert [copy[0].item() for copy in copies] == [10.0, 100.0]


@temperatures
@splits
def test_hardening_is_equivariant(temperature, split):
    graph = dgn.as_graph(*disjoint_union(grid(3, 3), star(3), path(1), complete(4)))
    field = random(graph.num_edges, 2)
    field[::4] = 0.5  # ties

    def harden(graph, field):
        return dgn.harden(field, graph, None, temperature, split)

    assert_permutation_equivariant(harden, graph, [], [field], "edge")
    assert_batch_independent(harden, graph, [], [field], "edge")


def test_noise_is_measured_in_the_graph_of_the_edge():
    edge_index, num_nodes, batch = disjoint_union(path(2), path(2))
    field = torch.tensor([1.0, -1.0, 1e-12, -1e-12])
    assert dgn.harden(field, edge_index, num_nodes, batch=batch).tolist() == [1.0, -1.0, 1.0, -1.0]
    assert dgn.harden(field, edge_index, num_nodes).tolist() == [1.0, -1.0, 0.0, 0.0]


@splits
def test_soft_hardening_passes_gradients(split):
    graph, field = grid(2, 3), random(14, 2)
    field = (field + field.sign()).requires_grad_()  # away from the jump of the sign
    assert torch.autograd.gradcheck(lambda field: dgn.harden(field, *graph, 2.0, split), (field,))


@both_dtypes
def test_arcsine_turns_a_wave_into_an_even_slope(dtype):
    angle = torch.linspace(-torch.pi / 2, torch.pi / 2, 9, dtype=dtype)
    torch.testing.assert_close(dgn.arcsine(3 * angle.sin()), angle)
    torch.testing.assert_close(dgn.arcsine(torch.stack([angle.sin(), -angle.sin()], 1))[:, 1], -angle)


@both_dtypes
def test_arcsine_takes_the_maximum_of_each_component_and_direction(dtype):
    wave = torch.linspace(-1, 1, 5, dtype=dtype)[:, None] * torch.tensor([1.0, 7.0], dtype=dtype)
    potential = torch.cat([wave, torch.zeros(2, 2, dtype=dtype), 1e-6 * wave])
    component = torch.tensor([0] * 5 + [1] * 2 + [2] * 5)
    triangles = dgn.arcsine(potential, component)
    expected = torch.linspace(-1, 1, 5, dtype=dtype).arcsin()[:, None].expand(5, 2)
    torch.testing.assert_close(triangles, torch.cat([expected, torch.zeros(2, 2, dtype=dtype), expected]))


def test_arcsine_of_the_first_eigenvector_of_a_path_is_nearly_even():
    edge_index, num_nodes = path(40)
    potential = dgn.directions(edge_index, num_nodes, k=1).potential
    wave, triangle = (dgn.gradient(values, edge_index).abs() for values in (potential, dgn.arcsine(potential)))
    assert wave.max() / wave.min() > 10
    inside = (edge_index > 1).all(dim=0) & (edge_index < 38).all(dim=0)
    assert triangle[inside].max() / triangle[inside].min() < 1.05


def test_rounding_at_a_crest_becomes_no_direction():
    """All nodes at both ends of a grid are crests; the infinite slope there multiplies differences by rounding."""
    for shape in ((9, 6), (17, 5), (12, 11)):
        edge_index, num_nodes = grid(*shape)
        name = torch.randperm(num_nodes, generator=torch.Generator().manual_seed(0))
        directions = dgn.directions(name[edge_index], num_nodes, k=1)
        field = dgn.gradient(dgn.arcsine(directions.potential), name[edge_index])
        across = edge_index[0] // shape[1] == edge_index[1] // shape[1]
        assert (dgn.smoothing(field, name[edge_index], num_nodes).edge_weight[across] == 0).all()


@pytest.mark.parametrize("shape", [(8,), (7, 5), (5, 4, 3)])
def test_arccosine_of_an_eigenvector_of_a_lattice_has_an_even_slope(shape):
    directions = dgn.directions(*grid(*shape), k=1)
    field = dgn.gradient(
        dgn.arccosine(directions.potential, directions.eigenvalues, directions.component), grid(*shape)[0]
    )
    along = field.abs()[field.abs() > 1e-6]
    torch.testing.assert_close(along, torch.full_like(along, torch.pi / shape[0]))
    steps = (shape[0] - 1) * directions.potential.size(0) // shape[0]
    assert len(along) == 2 * steps


def test_arccosine_without_a_vector_is_even():
    directions = dgn.directions(torch.tensor([[0], [1]]), 3, k=2)
    values = dgn.arccosine(directions.potential, directions.eigenvalues, directions.component)
    assert values.isfinite().all()
    assert (values[2] == torch.pi / 2).all()


def test_arcsine_of_no_nodes_is_empty():
    assert dgn.arcsine(torch.zeros(0, 2)).shape == (0, 2)


EDGES, NODES = star(2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dgn.harden(torch.ones(4), EDGES, NODES, 0), r"temperature: .*above 0, got 0; None is the argmax"),
        (lambda: dgn.harden(torch.ones(4), EDGES, NODES, -1.5), r"temperature: .*got -1\.5; None is the argmax"),
        (lambda: dgn.harden(torch.ones(4), EDGES, NODES, torch.nan), r"temperature: .*got nan; None is the argmax"),
        (lambda: dgn.harden(torch.ones(5), EDGES, NODES), r"field: expected 4 rows.*got shape \[5\]; give one row"),
        (lambda: dgn.harden(torch.full((4,), torch.inf), EDGES, NODES), r"field: .*got inf at index \[0\]; clean"),
        (lambda: dgn.arcsine(torch.tensor([0.0, torch.nan])), r"potential: .*got nan at index \[1\]; clean"),
    ],
)  # fmt: skip
def test_wrong_input_is_refused_with_the_remedy(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16])
def test_component_may_have_any_integer_dtype(dtype: torch.dtype) -> None:
    potential, component = torch.tensor([1.0, 2.0]), torch.tensor([0, 1])
    assert torch.equal(dgn.arcsine(potential, component.to(dtype)), dgn.arcsine(potential, component))
