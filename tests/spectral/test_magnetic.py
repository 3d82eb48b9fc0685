"""The magnetic Laplacian against its definition, entry by entry, and the laws of its eigenvectors and their phases."""

import cmath
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dgn
from dgn.spectral import magnetic
from dgn.testing import assert_batch_independent, assert_permutation_equivariant, disjoint_union, edge_cases
from tests.directed_graphs import directed_graphs

GRAPHS = edge_cases()
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)
DAG = (torch.tensor([[0, 0, 1, 2, 3, 3, 1], [1, 2, 3, 3, 4, 5, 5]]), 6)


def weights_of(edges, seed):
    return torch.rand(edges.size(1), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) + 0.1


def definition(edges, n, q, weight, normalization):
    away = np.zeros((n, n))
    for (i, j), w in zip(edges.t().tolist(), weight.tolist(), strict=True):
        away[i, j] += w if i != j else 0.0
    matrix = np.zeros((n, n), dtype=complex)
    for i in range(n):
        for j in range(n):
            if away[i, j] + away[j, i] > 0:
                net = (away[i, j] - away[j, i]) / (away[i, j] + away[j, i])
                matrix[i, j] = -max(away[i, j], away[j, i]) * cmath.exp(-2j * math.pi * q * net)
                matrix[i, i] += max(away[i, j], away[j, i])
    if normalization == "sym":
        degree = matrix.diagonal().real
        root = np.sqrt(np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0))
        matrix = root[:, None] * matrix * root
    return torch.from_numpy(matrix)


@settings(deadline=None)
@given(directed_graphs(), st.sampled_from([0.0, 0.1, 0.25, 0.5]), st.sampled_from([None, "sym"]), st.booleans())
def test_the_matrix_is_its_definition_and_hermitian(graph, q, normalization, weighted):
    edges, n = graph
    weight = weights_of(edges, n) if weighted else None
    matrix = dgn.magnetic_laplacian(edges, n, q, normalization, weight).to_dense()
    expected = definition(edges, n, q, torch.ones(edges.size(1)) if weight is None else weight, normalization)
    torch.testing.assert_close(matrix, expected)
    torch.testing.assert_close(matrix, matrix.mH)
    torch.testing.assert_close(
        dgn.magnetic_laplacian(edges.flip(0), n, q, normalization, weight).to_dense(), matrix.conj()
    )
    if q == 0:
        torch.testing.assert_close(matrix.real, dgn.laplacian(edges, n, normalization, weight).to_dense().double())


@settings(deadline=None)
@given(directed_graphs(), st.sampled_from([0.0, 0.1, 0.25]), st.sampled_from([None, "sym"]), st.integers(1, 8))
def test_pairs_are_the_lowest_of_each_component(graph, q, normalization, k):
    edges, n = graph
    weight = weights_of(edges, 3)
    directions = dgn.magnetic_directions(edges, n, k, q, normalization, weight)
    matrix = definition(edges, n, q, weight, normalization)
    assert torch.equal(directions.component, dgn.directions(edges, n, k=1).component)
    for c in range(len(directions.eigenvalues)):
        nodes = (directions.component == c).nonzero()[:, 0]
        block = matrix[nodes][:, nodes]
        count = min(k, len(nodes))
        torch.testing.assert_close(
            directions.eigenvalues[c, :count], torch.linalg.eigvalsh(block)[:count], atol=1e-12, rtol=0
        )
        assert directions.eigenvalues[c, count:].isnan().all()
        vectors = directions.potential[nodes][:, :count]
        torch.testing.assert_close(block @ vectors, vectors * directions.eigenvalues[c, :count], atol=1e-12, rtol=0)
        torch.testing.assert_close(vectors.mH @ vectors, torch.eye(count, dtype=torch.complex128))
        assert not directions.potential[nodes][:, count:].any()


def test_phases_of_a_directed_tree_are_depths():
    edges = torch.tensor([[0, 0, 1, 1, 3], [1, 2, 3, 4, 5]])
    directions = dgn.magnetic_directions(edges, q=0.125)
    oriented = dgn.orientation(edges)
    field = dgn.phase_difference(directions.potential[:, 0], oriented.edge_index)
    torch.testing.assert_close(field, 2 * math.pi * 0.125 * oriented.field.double())
    assert float(directions.eigenvalues[0, 0]) <= 1e-14


def test_reversing_all_edges_changes_the_sign_of_the_field():
    edges, n = DAG
    fields = [
        dgn.phase_difference(dgn.magnetic_directions(e, n, k=2, q=0.2).potential, edges) for e in (edges, edges.flip(0))
    ]
    torch.testing.assert_close(fields[0], -fields[1])
    assert fields[0].abs().max() > 0.1


def test_an_undirected_graph_has_no_magnetic_field():
    edges, n = DAG
    both = torch.cat([edges, edges.flip(0)], dim=1)
    directions = dgn.magnetic_directions(both, n, k=3, q=0.25)
    assert not dgn.phase_difference(directions.potential, both).any()


def test_small_charges_give_the_potential_of_the_orientation():
    pytest.importorskip("numba", reason="Numba is not installed")
    edges, n = DAG
    oriented = dgn.orientation(edges, n)
    exact = dgn.gradient(dgn.flow_potential(oriented.field, oriented.edge_index), oriented.edge_index)
    errors = []
    for q in (1e-2, 1e-3):
        vector = dgn.magnetic_directions(edges, n, q=q).potential[:, 0]
        phase = dgn.phase_difference(vector, oriented.edge_index) / (2 * math.pi * q)
        errors.append(float((phase - exact).abs().max()))
    assert errors[1] < 1e-4
    assert errors[1] < errors[0] / 50  # of second order


def test_fields_follow_a_relabelling_and_do_not_depend_on_the_batch():
    def field(graph):
        directions = dgn.magnetic_directions(graph, k=2, q=0.2)
        assert not directions.repeated().any()
        return dgn.phase_difference(directions.potential, graph, directions.component)

    cycle = (torch.tensor([[0, 1, 2, 3, 1], [1, 2, 3, 0, 3]]), 4)
    assert_permutation_equivariant(field, dgn.as_graph(*DAG), output="edge", tolerance=1e-9)
    assert_batch_independent(field, dgn.as_graph(*disjoint_union(DAG, cycle, DAG)), output="edge")


def test_repeated_eigenvalues_are_reported():
    # A directed ring of n nodes has eigenvalues 2 - 2 cos(2 pi (k / n - q)): for q = 1 / (2 n) they come in pairs.
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    pairs = dgn.magnetic_directions(ring, k=3, q=0.125)
    expected = sorted(2 - 2 * math.cos(2 * math.pi * (k / 4 - 0.125)) for k in range(4))[:3]
    torch.testing.assert_close(pairs.eigenvalues[0], torch.tensor(expected, dtype=torch.float64))
    assert pairs.repeated().tolist() == [[True, True, True]]
    assert dgn.magnetic_directions(ring, k=3, q=0.1).repeated().tolist() == [[False, False, False]]


@pytest.mark.parametrize("normalization", [None, "sym"])
def test_large_components_are_solved_as_small_ones(normalization, monkeypatch):
    draw = torch.Generator().manual_seed(0)
    edges = torch.cat(
        [
            torch.stack(
                [torch.randint(0, 400, (1200,), generator=draw), torch.randint(0, 400, (1200,), generator=draw)]
            ),
            torch.stack([torch.arange(399), torch.arange(1, 400)]),
        ],
        dim=1,
    )
    large = dgn.magnetic_directions(edges, 400, 3, 0.2, normalization)
    monkeypatch.setattr(magnetic, "largest_dense", lambda _: 500)
    small = dgn.magnetic_directions(edges, 400, 3, 0.2, normalization)
    torch.testing.assert_close(large.eigenvalues, small.eigenvalues, atol=1e-10, rtol=0)
    fields = [dgn.phase_difference(directions.potential, edges) for directions in (large, small)]
    torch.testing.assert_close(*fields, atol=1e-6, rtol=0)


@pytest.mark.parametrize("unit", [2.0**-600, 2.0**600])
def test_units_of_weights_change_only_the_unit_of_eigenvalues(unit):
    edges, n = DAG
    weight = weights_of(edges, 0)
    one, other = (dgn.magnetic_directions(edges, n, 2, 0.2, edge_weight=w) for w in (weight, weight * unit))
    torch.testing.assert_close(one.potential, other.potential)
    torch.testing.assert_close(one.eigenvalues * unit, other.eigenvalues, rtol=1e-12, atol=0)


@every_graph
def test_edge_cases_are_defined(graph):
    directions = dgn.magnetic_directions(*graph, k=2)
    assert directions.potential.shape == (graph[1], 2)
    assert directions.potential.isfinite().all()
    assert dgn.phase_difference(directions.potential, graph[0]).isfinite().all()


@pytest.mark.parametrize("q", [-0.1, 0.6, math.nan])
def test_charges_outside_half_a_turn_are_refused(q):
    with pytest.raises(ValueError, match=r"^q: expected a fraction of a turn for each edge, from 0 to 0.5, got"):
        dgn.magnetic_directions(*DAG, q=q)


def test_unknown_normalizations_are_refused():
    with pytest.raises(ValueError, match="did you mean 'sym'"):
        dgn.magnetic_laplacian(*DAG, normalization="symm")
