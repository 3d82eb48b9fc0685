"""Each law accepts a right function and catches a wrong one."""

import pytest
import torch

from dgn import as_graph, directions
from dgn.testing import (
    assert_antisymmetric,
    assert_basis_independent,
    assert_batch_independent,
    assert_derivative,
    assert_linear,
    assert_permutation_equivariant,
    assert_reflection,
    assert_same_eigenspace,
    assert_smoothing,
    cycle,
    disjoint_union,
    edge_cases,
    grid,
    path,
)

DTYPES = [torch.float64, torch.float32]
GRID = as_graph(*grid(4, 3))
PAIR = as_graph(*disjoint_union(path(4), path(0), cycle(5), path(1)))


def random(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(7))


def summed(graph, x, weight):
    return graph.sum_to_target(weight * x[graph.source])


def differences(graph, x, weight):
    return weight * (x[graph.source] - x[graph.target])


def largest(graph, x, weight):  # one number per graph
    batch = torch.zeros(graph.num_nodes, dtype=torch.long) if graph.batch is None else graph.batch
    return x.new_zeros(graph.num_graphs).scatter_reduce(0, batch, x.abs(), "amax") + 0 * weight.sum()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("graph", [GRID, PAIR, *(as_graph(*graph) for graph in edge_cases().values())])
@pytest.mark.parametrize(("function", "output"), [(summed, "node"), (differences, "edge"), (largest, "graph")])
def test_equivariant_functions_are_accepted(function, output, graph, dtype):
    x, weight = random(graph.num_nodes, dtype=dtype), random(graph.num_edges, dtype=dtype)
    assert_permutation_equivariant(function, graph, [x], [weight], output)
    if graph.batch is not None:
        assert_batch_independent(function, graph, [x], [weight], output)


@pytest.mark.parametrize(
    ("wrong", "output"),
    [
        (lambda graph, x, weight: summed(graph, x, weight) + torch.arange(len(x)), "node"),  # sees node numbers
        (lambda graph, x, weight: summed(graph, x, weight.cumsum(0)), "node"),  # sees the order of edges
        (lambda graph, x, weight: x.cumsum(0), "node"),  # noqa: ARG005
        (lambda graph, x, weight: weight.roll(1), "edge"),  # noqa: ARG005
        (lambda graph, x, weight: x[:1], "graph"),  # noqa: ARG005
        (lambda graph, x, weight: x.masked_fill(torch.arange(len(x)) == 0, torch.nan), "node"),  # noqa: ARG005
    ],
)
def test_functions_of_the_numbering_are_caught(wrong, output):
    with pytest.raises(AssertionError, match="permutation equivariance: expected"):
        assert_permutation_equivariant(wrong, GRID, [random(12)], [random(GRID.num_edges)], output)


@pytest.mark.parametrize(
    ("wrong", "output"),
    [
        (lambda graph, x, weight: x - x.mean(), "node"),  # noqa: ARG005
        (lambda graph, x, weight: weight / weight.abs().max(), "edge"),  # noqa: ARG005
        (lambda graph, x, weight: x.new_full((graph.num_graphs,), len(x)), "graph"),  # noqa: ARG005
    ],
)
def test_functions_that_mix_graphs_are_caught(wrong, output):
    with pytest.raises(AssertionError, match="batch independence of graph 0: expected"):
        assert_batch_independent(wrong, PAIR, [random(PAIR.num_nodes)], [random(PAIR.num_edges)], output)


def test_batch_independence_needs_a_batch():
    with pytest.raises(ValueError, match="batch=None; make one with disjoint_union"):
        assert_batch_independent(summed, GRID, [random(12)], [random(GRID.num_edges)])


def test_a_result_of_the_wrong_shape_is_caught():
    with pytest.raises(AssertionError, match=r"reflection with parity \+1: expected shape \[4\], got \[2\]"):
        assert_reflection(lambda field: lambda x: x[: 4 if field.sum() > 0 else 2], torch.ones(5), random(5), 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_functions_are_accepted_and_others_caught(dtype):
    assert_linear(lambda x: x.cumsum(0), (6, 2), dtype)
    for wrong in (torch.abs, torch.square, lambda x: x + 1, lambda x: x / x.norm()):
        with pytest.raises(AssertionError, match="linearity"):
            assert_linear(wrong, (6, 2), dtype)


def matrices(*rows):
    matrix = torch.tensor(rows, dtype=torch.float64)
    return lambda x: torch.einsum("nkm,mc->nkc", matrix[:, None].to(x), x)


@pytest.mark.parametrize("dtype", DTYPES)
def test_averages_are_accepted(dtype):
    assert_smoothing(matrices([0.25, 0.75], [0.0, 0.0]), 2, dtype)
    assert_smoothing(matrices([0.0, 0.5], [1.0, 0.0]), 2, dtype, row_sums=(0.0, 0.5, 1.0))
    assert_smoothing(matrices([0.0, 7.0], [1.0, 0.0]), 2, dtype, row_sums=None)
    assert_smoothing(lambda x: x, 0, dtype)


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        (matrices([-0.5, 1.5], [0.0, 1.0]), "smoothing, weights of 0 or more"),
        (matrices([0.5, 0.4], [0.0, 1.0]), r"smoothing, rows that sum to one of \(0\.0, 1\.0\)"),
        (lambda x: x.relu(), "linearity"),
    ],
)
def test_wrong_averages_are_caught(wrong, law):
    with pytest.raises(AssertionError, match=law):
        assert_smoothing(wrong, 2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_derivatives_are_accepted_and_others_caught(dtype):
    assert_derivative(matrices([-0.3, 0.3], [0.0, 0.0]), 2, dtype)
    with pytest.raises(AssertionError, match=r"derivative of a constant: expected 0, got 0\.25"):
        assert_derivative(matrices([-0.5, 0.75], [0.0, 0.0]), 2, dtype)
    with pytest.raises(AssertionError, match="linearity"):
        assert_derivative(lambda x: (x - x.roll(1, 0)).abs(), 2, dtype)


@pytest.mark.parametrize("parity", [1, -1])
def test_reflection_is_accepted_with_its_parity_only(parity):
    make = {1: lambda field: lambda x: field.abs() * x, -1: lambda field: lambda x: field * x}
    assert_reflection(make[parity], random(5), random(5), parity)
    with pytest.raises(AssertionError, match=rf"reflection with parity {parity:+d}".replace("+", r"\+")):
        assert_reflection(make[-parity], random(5), random(5), parity)
    with pytest.raises(AssertionError, match="reflection"):
        assert_reflection(lambda field: lambda x: field.relu() * x, random(5), random(5), parity)


@pytest.mark.parametrize("shape", [(), (2,)])
def test_antisymmetric_fields_are_accepted_and_others_caught(shape):
    edge_index = torch.tensor([[0, 1, 1, 2, 0, 1, 2], [1, 0, 2, 1, 1, 1, 0]])  # parallel, a loop, and one way only
    field = torch.tensor([2.0, -2.0, 3.0, -3.0, 2.0, 0.0, 5.0]).view(-1, *[1] * len(shape)).expand(-1, *shape)
    assert_antisymmetric(field, edge_index)
    for edge in range(6):  # the last edge has no partner, so no law
        wrong = field.clone()
        wrong[edge] += 0.1
        with pytest.raises(AssertionError, match="antisymmetry"):
            assert_antisymmetric(wrong, edge_index)


def test_eigenspaces_are_the_same_in_every_basis():
    basis, other = torch.linalg.qr(random(6, 3)).Q, torch.linalg.qr(random(3, 3)).Q
    assert_same_eigenspace(basis, basis @ other)
    assert_same_eigenspace(basis, -3 * basis.flip(1))
    with pytest.raises(AssertionError, match="equality of eigenspaces"):
        assert_same_eigenspace(basis, basis[:, :2])
    with pytest.raises(AssertionError, match="equality of eigenspaces"):
        assert_same_eigenspace(basis, basis + 0.01 * basis.roll(1, 0))


def test_the_tolerance_is_respected():
    nearly = matrices([-1.0, 1.001], [0.0, 0.0])
    assert_derivative(nearly, 2, tolerance=2e-3)
    with pytest.raises(AssertionError, match=r"off by more than 5\.0e-04"):
        assert_derivative(nearly, 2, tolerance=5e-4)


@pytest.mark.parametrize("graph", [cycle(6), grid(3, 3), grid(4, 3)])
def test_functions_of_the_basis_are_caught(graph):
    result = directions(*graph, k=2)
    assert_basis_independent(lambda potential: potential.norm(dim=1), result)
    with pytest.raises(AssertionError, match="independence of the basis"):
        assert_basis_independent(lambda potential: potential[:, 0], result)
