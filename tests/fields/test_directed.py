"""Orientation and phase differences against their definitions, edge by edge, on random directed multigraphs."""

import cmath
from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dgn
from dgn.testing import assert_antisymmetric, assert_permutation_equivariant, edge_cases, grid
from tests.directed_graphs import directed_graphs
from tests.small_graphs import random

GRAPHS = edge_cases()
every_graph = pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS)


@settings(deadline=None)
@given(directed_graphs(), st.integers(0, 99))
def test_the_field_is_the_flow_at_its_source_and_minus_it_at_its_target(graph, seed):
    edges, n = graph
    flow = random(edges.size(1), seed=seed)
    oriented = dgn.orientation(edges, n, flow)
    expected = Counter()
    for e, (tail, head) in enumerate(edges.t().tolist()):
        if tail == head:
            expected[(tail, tail, 0.0, e)] += 1
        else:
            expected[(head, tail, float(flow[e]), e)] += 1  # a message from the head: at the tail, towards the head
            expected[(tail, head, -float(flow[e]), e)] += 1
    got = zip(*oriented.edge_index.tolist(), oriented.field.tolist(), oriented.edge.tolist(), strict=True)
    assert Counter((j, i, f + 0.0, e) for j, i, f, e in got) == expected
    assert torch.equal(oriented.edge_index[:, : edges.size(1)], edges)


@settings(deadline=None)
@given(directed_graphs())
def test_divergence_is_outflow_less_inflow_and_sums_over_pairs_are_antisymmetric(graph):
    edges, n = graph
    flow = random(edges.size(1), 2)
    oriented = dgn.orientation(edges, n, flow)
    inner = edges[0] != edges[1]
    outflow = torch.zeros(n, 2).double().index_add(0, edges[0, inner], flow[inner])
    inflow = torch.zeros(n, 2).double().index_add(0, edges[1, inner], flow[inner])
    torch.testing.assert_close(dgn.divergence(oriented.field, oriented.edge_index, n), outflow - inflow)
    dense = torch.zeros(n, n, 2).double()
    dense.index_put_((oriented.edge_index[1], oriented.edge_index[0]), oriented.field, accumulate=True)
    torch.testing.assert_close(dense, -dense.transpose(0, 1))


@every_graph
def test_reversing_all_edges_changes_the_sign(graph):
    edges, n = graph
    flow = random(edges.size(1))
    there, back = dgn.orientation(edges, n, flow), dgn.orientation(edges.flip(0), n, -flow)
    x = random(n, 3)
    for one, other in ((there, back),):
        derivative = [
            dgn.directional_derivative(x, o.field[:, None], dgn.as_graph(o.edge_index, n)) for o in (one, other)
        ]
        torch.testing.assert_close(*derivative)
    back = dgn.orientation(edges.flip(0), n, flow)
    reverse = dgn.directional_derivative(x, back.field[:, None], dgn.as_graph(back.edge_index, n))
    torch.testing.assert_close(reverse, -derivative[0])


def test_forward_reads_successors_and_backward_predecessors_of_antiparallel_edges_too():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 3]])  # 0 <-> 1 -> 2 -> 3
    oriented = dgn.orientation(edges, 4)
    x = torch.tensor([1.0, 10.0, 100.0, 1000.0])
    ahead = dgn.smoothing(dgn.forward_field(oriented.field), oriented.edge_index, 4)(x).squeeze(1)
    behind = dgn.smoothing(dgn.backward_field(oriented.field), oriented.edge_index, 4)(x).squeeze(1)
    assert ahead.tolist() == [10.0, 50.5, 1000.0, 0.0]
    assert behind.tolist() == [10.0, 1.0, 10.0, 100.0]


def test_orientation_refuses_flows_that_do_not_fit():
    with pytest.raises(ValueError, match="flow: expected 2 rows, one per edge"):
        dgn.orientation(torch.tensor([[0, 1], [1, 2]]), 3, torch.ones(3))
    with pytest.raises(ValueError, match=r"flow: expected shape \[R, K\] or \[R\]"):
        dgn.orientation(torch.tensor([[0], [1]]), 2, torch.ones(1, 1, 1))


@settings(deadline=None)
@given(directed_graphs(), st.integers(0, 99), st.floats(-10, 10))
def test_phase_differences_are_arguments_and_do_not_depend_on_the_phase(graph, seed, turn):
    edges, n = graph
    u = torch.complex(random(n, 2, seed=seed), random(n, 2, seed=seed + 1000))
    field = dgn.phase_difference(u, edges)
    for e, (j, i) in enumerate(edges.t().tolist()):
        for k in range(2):
            assert float(field[e, k]) == pytest.approx(cmath.phase(complex(u[i, k].conj() * u[j, k])), abs=2e-6)
    torch.testing.assert_close(dgn.phase_difference(u * cmath.exp(1j * turn), edges), field)
    torch.testing.assert_close(dgn.phase_difference(u.conj(), edges), -field)
    torch.testing.assert_close(dgn.phase_difference(u, edges.flip(0)), -field)


def test_equal_opposite_and_vanishing_potentials_have_no_direction():
    edges, n = grid(3, 3)
    assert not dgn.phase_difference(torch.complex(random(n), torch.zeros(n).double()), edges).any()
    small = torch.complex(random(n), random(n, seed=1))
    small[4] = 1e-12j
    field = dgn.phase_difference(small, edges)
    at_middle = (edges == 4).any(dim=0)
    assert not field[at_middle].any()
    assert field[~at_middle].all()
    assert_antisymmetric(field, edges)
    alone = dgn.phase_difference(1e-12 * small, edges)  # relative to the graph, and to that of the batch
    torch.testing.assert_close(alone, field)
    pair = torch.cat([small, 1e-12 * small])
    both = torch.cat([edges, edges + n], dim=1)
    batch = torch.arange(2).repeat_interleave(n)
    torch.testing.assert_close(dgn.phase_difference(pair, both, batch), torch.cat([field, field]))
    assert not dgn.phase_difference(pair, both)[len(field) :].any()


def test_phase_differences_follow_a_relabelling():
    graph = dgn.as_graph(*grid(3, 4))
    u = torch.complex(random(12, 2), random(12, 2, seed=1))
    assert_permutation_equivariant(lambda g, u: dgn.phase_difference(u, g), graph, nodes=[u], output="edge")


def test_real_potentials_are_refused():
    with pytest.raises(TypeError, match=r"potential: expected a complex tensor .*, got torch.float32; .* dgn.gradient"):
        dgn.phase_difference(torch.ones(3), torch.tensor([[0], [1]]))
