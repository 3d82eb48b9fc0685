"""Updated directions equal those of a cold solve, and take fewer iterations."""

from collections.abc import Callable, Iterator
from unittest.mock import Mock

import pytest
import torch

pytest.importorskip("numba", reason="Numba is not installed")

import dgn
from dgn import Directions, Graph
from dgn.spectral.solvers import lobpcg, select
from dgn.testing import collaboration

Build = Callable[[str], Graph]
every_normalization = pytest.mark.parametrize("normalization", [None, "rw", "sym"])


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mock]:
    """Counts iterations; components of 40 nodes or more are iterated on."""
    for name, value in {"LARGEST_EXACT": 40, "LARGEST_RESCUE": 0}.items():
        monkeypatch.setattr(select, name, value)
    monkeypatch.setattr(select, "LARGEST_DENSE", 40)
    calls = Mock(side_effect=lobpcg._improve)
    monkeypatch.setattr(lobpcg, "_improve", calls)
    return calls


def assert_same(ours: Directions, theirs: Directions) -> None:
    """As accurate as both are: the same components, values, signs and vectors."""
    assert torch.equal(ours.component, theirs.component)
    torch.testing.assert_close(ours.eigenvalues, theirs.eigenvalues, rtol=1e-7, atol=0, equal_nan=True)
    torch.testing.assert_close(ours.gap, theirs.gap, rtol=0, atol=1e-3, equal_nan=True)
    sure = (theirs.sign_is_canonical & ~theirs.repeated(1e-3))[theirs.component]
    assert sure.any()
    scale = float(theirs.potential.abs().max())
    torch.testing.assert_close(ours.potential[sure], theirs.potential[sure], atol=1e-3 * scale, rtol=0)


@every_normalization
def test_an_update_equals_a_cold_solve_and_takes_fewer_steps(normalization: str | None, steps: Mock) -> None:
    edges, n = collaboration(5000, 25000)
    before = dgn.directions(edges, n, 4, normalization)
    changed = torch.cat([edges[:, 5:], torch.tensor([[10, 20], [4000, 3000]])], dim=1)
    steps.reset_mock()
    cold = dgn.directions(changed, n, 4, normalization)
    cold_steps = steps.call_count
    steps.reset_mock()
    warm = before.update(changed, n, normalization)
    assert steps.call_count < cold_steps
    assert_same(warm, cold)


def test_an_unchanged_graph_converges_at_once(steps: Mock) -> None:
    edges, n = collaboration(5000, 25000)
    before = dgn.directions(edges, n, k=4)
    steps.reset_mock()
    again = before.update(edges, n)
    assert steps.call_count <= 1
    assert_same(again, before)


@pytest.mark.usefixtures("steps")
@every_normalization
def test_components_may_split_and_merge(normalization: str | None, build: Build) -> None:
    two = build("connected 200 1 + connected 150 2 + path 9")
    joined = torch.cat([two.edge_index, torch.tensor([[7, 340], [220, 352]])], dim=1)
    apart, together = (dgn.directions(e, two.num_nodes, 3, normalization) for e in (two.edge_index, joined))
    assert (len(apart.eigenvalues), len(together.eigenvalues)) == (3, 1)
    assert_same(apart.update(joined, two.num_nodes, normalization), together)
    assert_same(together.update(two, normalization=normalization), apart)


@pytest.mark.usefixtures("steps")
def test_nodes_may_be_added_and_weights_changed(build: Build) -> None:
    graph = build("grid 9 13")
    before = dgn.directions(graph, k=2)
    longer = torch.cat([graph.edge_index, torch.tensor([[116, 117], [117, 118]])], dim=1)
    weight = torch.linspace(0.5, 2, longer.size(1), dtype=torch.float64)
    cold = dgn.directions(longer, 119, 2, edge_weight=weight)
    assert_same(before.update(longer, 119, edge_weight=weight), cold)


def test_small_graphs_are_solved_from_scratch_bitwise_identically(build: Build) -> None:
    before, graph = dgn.directions(build("path 12"), k=2), build("tree 12 3")
    assert torch.equal(before.update(graph).potential, dgn.directions(graph, k=2).potential)


def test_removed_nodes_are_refused(build: Build) -> None:
    with pytest.raises(ValueError, match=r"^edge_index: expected at least the 5 nodes .*, got 4; pass num_nodes"):
        dgn.directions(build("path 5")).update(build("path 4"))


@pytest.mark.usefixtures("steps")
def test_start_vectors_of_zeros_are_accepted(build: Build) -> None:
    graph = build("connected 150 1")
    nothing = dgn.directions(build("nodes 150"), k=3)
    assert_same(nothing.update(graph), dgn.directions(graph, k=3))
