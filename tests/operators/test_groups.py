"""Derivatives and averages along groups of directions: laws that those along one direction break."""

import pytest
import torch

import dgn
from dgn.testing import (
    assert_basis_independent,
    assert_batch_independent,
    assert_permutation_equivariant,
    assert_smoothing,
    complete,
    cycle,
    disjoint_union,
    edge_cases,
    grid,
    hypercube,
    path,
    star,
)

REPEATED = {
    "cycle": (cycle(6), 2),
    "odd cycle": (cycle(7), 3),
    "grid": (grid(4, 4), 2),
    "cubane": (hypercube(3), 3),
    "complete": (complete(4), 3),
    "star": (star(4), 3),
    "two components": (disjoint_union(cycle(5), complete(3), path(4))[:2], 3),
}
repeated = pytest.mark.parametrize(("graph", "k"), REPEATED.values(), ids=REPEATED)
NORMALIZATIONS = pytest.mark.parametrize("normalization", [None, "rw", "sym"])


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def slope(graph, potential, gap, x, direction=1):
    """What dx-group gives: the norm over the group. [N, C]"""
    field = dgn.gradient(potential, graph)
    return torch.linalg.vector_norm(dgn.group_derivative(field, gap, graph, direction=direction)(x), dim=1)


def average(graph, potential, gap, x, direction=1):
    return dgn.group_smoothing(dgn.gradient(potential, graph), gap, graph, direction=direction)(x)[:, 0]


def plain(graph, potential, gap, x, direction=1):  # noqa: ARG001
    """What dx gives along a direction by itself."""
    return dgn.derivative(dgn.gradient(potential, graph), graph)(x)[:, direction - 1].abs()


both = pytest.mark.parametrize("function", [slope, average])


def solve(graph, k, weight=None, normalization=None):
    d = dgn.directions(graph, k=k, edge_weight=weight, normalization=normalization)
    return d, d.gap[d.component]


@NORMALIZATIONS
@both
@repeated
def test_invariant_to_basis_and_sign(function, graph, k, normalization):
    graph = dgn.as_graph(*graph)
    d, gap = solve(graph, k, normalization=normalization)
    x = random(graph.num_nodes, 3)
    for direction in range(1, k + 1):
        assert_basis_independent(lambda potential, g=direction: function(graph, potential, gap, x, g), d)
    if d.repeated()[0, 0]:  # with a weighted product, not every graph keeps its repeated eigenvalue
        with pytest.raises(AssertionError, match="independence of the basis"):
            assert_basis_independent(lambda potential: plain(graph, potential, gap, x), d)


@both
@repeated
def test_relabelling_the_nodes_relabels_the_result(function, graph, k):
    graph = dgn.as_graph(*graph)

    def from_scratch(graph, x, of=function):
        d, gap = solve(graph, k)
        return of(graph, d.potential, gap, x)

    x = random(graph.num_nodes, 3)
    assert_permutation_equivariant(from_scratch, graph, [x], tolerance=1e-9)
    with pytest.raises(AssertionError, match="permutation equivariance"):
        assert_permutation_equivariant(lambda graph, x: from_scratch(graph, x, plain), graph, [x], tolerance=1e-9)


def crossing(t):
    """A grid of 4 by 4 nodes whose second axis is t times as stiff: the first two eigenvalues cross at t = 1."""
    edge_index, num_nodes = grid(4, 4)
    graph = dgn.as_graph(edge_index, num_nodes)
    along_second = (edge_index[0] - edge_index[1]).abs() == 1
    return graph, torch.where(along_second, t, 1.0).double()


@NORMALIZATIONS
@pytest.mark.parametrize(("function", "jumps"), [(slope, False), (average, False), (plain, True)])
def test_continuous_where_eigenvalues_cross(function, jumps, normalization):
    """Over a step of 2e-7 the slope along a group changes by about as much, that along a direction by its size."""
    x, results = random(16, 3), []
    for t in (1 - 1e-7, 1.0, 1 + 1e-7):
        graph, weight = crossing(t)
        d, gap = solve(graph, 2, weight, normalization)
        results.append(function(graph, d.potential, gap, x))
    change = max((results[0] - results[1]).abs().max(), (results[2] - results[1]).abs().max())
    assert change > 0.1 if jumps else change < 1e-5


@both
def test_continuous_along_a_path_of_graphs(function):
    """The modulus of continuity: ten times finer steps change the result ten times less."""
    x, largest = random(16, 3), []
    for step in (1e-3, 1e-4):
        results = []
        for t in torch.arange(1 - 20 * step, 1 + 20 * step, step, dtype=torch.float64).tolist():
            graph, weight = crossing(t)
            d, gap = solve(graph, 2, weight)
            results.append(function(graph, d.potential, gap, x))
        largest.append(torch.stack(results).diff(dim=0).abs().max())
    assert largest[0] < 0.05
    assert largest[1] < 0.2 * largest[0]


@both
def test_an_eigenspace_cut_by_the_last_column_gives_0(function):
    """The cube with three nearly equal axes and two columns: strength and result go to 0 as the three become one."""
    graph = dgn.as_graph(*hypercube(3))
    apart = (graph.source - graph.target).abs().log2()
    x = random(8, 3)
    sizes = []
    for difference in (0.5, 1e-3, 1e-6, 0.0):
        d, gap = solve(graph, 2, (1 + difference * apart).double())
        sizes.append(function(graph, d.potential, gap, x).abs().max().item())
    assert sizes[0] > 0.1
    assert sizes[1] < 0.1
    assert sizes[2] < 1e-4
    assert sizes[3] < 1e-12


@pytest.mark.parametrize("direction", [1, 2])
@pytest.mark.parametrize("graph", [path(6), grid(5, 3), star(1)])
def test_a_separate_eigenvalue_gives_the_plain_operators(graph, direction):
    graph = dgn.as_graph(*graph)
    d, gap = solve(graph, 3)
    x = random(graph.num_nodes, 3)
    torch.testing.assert_close(
        slope(graph, d.potential, gap, x, direction), plain(graph, d.potential, gap, x, direction)
    )
    expected = dgn.smoothing(dgn.gradient(d.potential, graph), graph)(x)[:, direction - 1]
    torch.testing.assert_close(average(graph, d.potential, gap, x, direction), expected)


@repeated
def test_bounds(graph, k):
    graph = dgn.as_graph(*graph)
    d, gap = solve(graph, k)
    x = random(graph.num_nodes, 3)
    field = dgn.gradient(d.potential, graph)
    assert not slope(graph, d.potential, gap, torch.ones_like(x)).gt(1e-12).any()
    across = dgn.gradient(x, graph).abs()
    steepest = torch.zeros_like(x).scatter_reduce(0, graph.target[:, None].expand_as(across), across, "amax")
    assert (slope(graph, d.potential, gap, x) <= steepest + 1e-12).all()
    assert_smoothing(lambda x: dgn.group_smoothing(field, gap, graph)(x)[:, 0], graph.num_nodes)
    torch.testing.assert_close(slope(graph, -1e-20 * d.potential, gap, x), slope(graph, d.potential, gap, x))


@pytest.mark.parametrize("graph", edge_cases().values(), ids=edge_cases())
@both
def test_edge_cases_are_finite(function, graph):
    graph = dgn.as_graph(*graph)
    d, gap = solve(graph, 2)
    x = random(graph.num_nodes, 2)
    result = function(graph, d.potential, gap, x)
    assert result.shape == x.shape
    assert result.isfinite().all()


@both
def test_batch_independent(function):
    graph = dgn.as_graph(*disjoint_union(cycle(6), path(1), grid(3, 3), complete(4)))
    d, gap = solve(graph, 3)
    assert_batch_independent(function, graph, [d.potential, gap, random(graph.num_nodes, 2)])


def test_gradients_of_signal_and_field():
    graph = dgn.as_graph(*cycle(5))
    d, gap = solve(graph, 2)
    x, potential = random(5, 2).requires_grad_(), d.potential.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda x, potential: slope(graph, potential, gap, x), (x, potential))
    assert torch.autograd.gradcheck(lambda x, potential: average(graph, potential, gap, x), (x, potential))


@pytest.mark.parametrize("gap", [torch.zeros(5, 2), torch.zeros(6, 1), torch.zeros(6)])
def test_gaps_that_do_not_fit_are_refused(gap):
    graph = dgn.as_graph(*cycle(6))
    with pytest.raises(ValueError, match=r"gap: expected shape \[6, K\].*AddDirections"):
        dgn.group_derivative(torch.zeros(12, 2), gap, graph)
