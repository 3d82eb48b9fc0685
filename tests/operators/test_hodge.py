"""The potential of a flow against dense least squares, and the laws of the Hodge decomposition."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("numba", reason="Numba is not installed")

import dgn
from dgn.testing import assert_permutation_equivariant, edge_cases, grid, path, random_graph
from tests.directed_graphs import directed_graphs
from tests.small_graphs import random

GRAPHS = {**edge_cases(), "grid": grid(4, 5), "antiparallel": (torch.tensor([[0, 1, 1, 2], [1, 0, 2, 0]]), 3)}
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


def least_squares(field, edges, n, weight):
    """The solution of smallest norm of the weighted least-squares problem, which adds up to 0 on each component."""
    incidence = torch.zeros(edges.size(1), n, dtype=torch.float64)
    for e, (j, i) in enumerate(edges.t().tolist()):
        incidence[e, j] += 1
        incidence[e, i] -= 1
    root = weight.sqrt()[:, None]
    return torch.linalg.pinv(root * incidence) @ (root * field)


@settings(deadline=None, max_examples=60)
@given(directed_graphs(), st.integers(0, 99), st.booleans())
def test_the_potential_is_that_of_dense_least_squares(graph, seed, weighted):
    edges, n = graph
    field = random(edges.size(1), 2, seed=seed)
    weight = torch.rand(edges.size(1), generator=torch.Generator().manual_seed(seed)).double() + 0.1
    weight = weight if weighted else torch.ones_like(weight)
    got = dgn.flow_potential(field, edges, n, weight if weighted else None)
    torch.testing.assert_close(got, least_squares(field, edges, n, weight), atol=1e-9, rtol=0)


@settings(deadline=None, max_examples=60)
@given(directed_graphs(), st.integers(0, 99))
def test_parts_add_up_are_orthogonal_and_the_rest_has_no_divergence(graph, seed):
    edges, n = graph
    both = torch.cat([edges, edges.flip(0)], dim=1)
    half = random(edges.size(1), seed=seed) * (edges[0] != edges[1])
    weight = (torch.rand(edges.size(1), generator=torch.Generator().manual_seed(seed)).double() + 0.1).repeat(2)
    field = torch.cat([half, -half])
    parts = dgn.hodge_decomposition(field, both, n, weight)
    torch.testing.assert_close(parts.gradient + parts.circulation, field)
    product = (weight * parts.gradient * parts.circulation).sum()
    assert float(product.abs()) <= 1e-12 * float((weight * field**2).sum())
    divergence = dgn.divergence(weight * parts.circulation, both, n)
    torch.testing.assert_close(divergence, torch.zeros_like(divergence), atol=1e-10, rtol=0)
    again = dgn.hodge_decomposition(parts.circulation, both, n, weight)
    torch.testing.assert_close(again.gradient, torch.zeros_like(field), atol=1e-9, rtol=0)


@every_graph
def test_the_potential_inverts_the_gradient(graph):
    edges, n = graph
    x = random(n, 3)
    component = dgn.directions(edges, n, k=1).component
    count = component.bincount(minlength=1).double()[:, None]
    mean = (torch.zeros(len(count), 3).double().index_add(0, component, x) / count)[component]
    parts = dgn.hodge_decomposition(dgn.gradient(x, dgn.as_graph(edges, n)), edges, n)
    if (edges[0] != edges[1]).any():
        torch.testing.assert_close(parts.potential, x - mean, atol=1e-9, rtol=0)
    assert float(parts.circulation.abs().max() if parts.circulation.numel() else 0) <= 1e-9


def test_the_potential_of_the_orientation_of_a_tree_is_depth():
    parent = [0, 0, 1, 1, 3]
    edges = torch.tensor([parent, [1, 2, 3, 4, 5]])
    oriented = dgn.orientation(edges)
    parts = dgn.hodge_decomposition(oriented.field, oriented.edge_index)
    depth = torch.tensor([0.0, 1, 1, 2, 2, 3]).double()
    torch.testing.assert_close(parts.potential, depth - depth.mean(), atol=1e-9, rtol=0)
    torch.testing.assert_close(parts.potential, dgn.flow_potential(-torch.ones(5), edges), atol=1e-9, rtol=0)


def test_a_flow_around_a_cycle_has_no_potential():
    edges = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    parts = dgn.hodge_decomposition(torch.ones(4), edges)
    assert float(parts.potential.abs().max()) <= 1e-12
    torch.testing.assert_close(parts.circulation, torch.ones(4).double())


def test_potentials_follow_a_relabelling():
    edges, n = random_graph(12, 0.3, torch.Generator().manual_seed(0))
    assert_permutation_equivariant(
        lambda graph, field: dgn.flow_potential(field, graph), dgn.as_graph(edges, n), edges=[random(edges.size(1), 2)]
    )


def test_data_brings_its_weights():
    from torch_geometric.data import Data

    edges, n = path(4)
    weight = torch.tensor([1.0, 2.0, 3.0, 1.0, 2.0, 3.0])
    data = Data(edge_index=edges, num_nodes=n, edge_weight=weight)
    field = random(6)
    assert torch.equal(dgn.flow_potential(field, data), dgn.flow_potential(field, edges, n, weight))


@pytest.mark.slow
def test_a_million_edges_are_split_orthogonally():
    edges, n = dgn.testing.collaboration(200_000, 1_000_000)
    field = random(edges.size(1))
    parts = dgn.hodge_decomposition(field, edges, n)
    product = float((parts.gradient * parts.circulation).sum())
    assert abs(product) <= 1e-12 * float(parts.gradient.norm() * parts.circulation.norm())
