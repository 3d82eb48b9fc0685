"""Gradient steps along phi_1 reduce the diffusion distance (theorem of section 2.5, proof in appendix C)."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

import dgn
from dgn import Directions
from dgn.testing.graphs import grid, path, random_graph


def both_ways(edges: list[tuple[int, int]]) -> Tensor:
    one_way = torch.tensor(edges).t()
    return torch.cat([one_way, one_way.flip(0)], dim=1)


# The paper's potentials are those of D^-1 L, and its equation for the distance needs the measure of the degrees.
GRAPHS = {
    "path": path(9),
    "grid": grid(3, 5),
    "star with a tail": (both_ways([(0, 1), (0, 2), (0, 3), (0, 4), (4, 5), (5, 6), (6, 7)]), 8),
    **{f"random {seed}": random_graph(12, 0.35, torch.Generator().manual_seed(seed)) for seed in (0, 1, 2, 3, 5)},
}


def both_signs(edge_index: Tensor, num_nodes: int) -> Iterator[tuple[Directions, Tensor, Tensor]]:
    """All directions, then phi_1 and the node that a step along it leads to, for either sign of phi_1."""
    d = dgn.directions(edge_index, num_nodes, k=num_nodes - 1, normalization="rw")
    assert len(d.eigenvalues) == 1, "connected"
    assert not d.repeated()[0, 0]
    for phi in (d.potential[:, 0], -d.potential[:, 0]):
        yield d, phi, dgn.gradient_step(phi, edge_index)


def squared_differences(d: Directions, nodes: Tensor) -> Tensor:
    """(phi_i(nodes[x]) - phi_i(y))^2, as [x, y, i]."""
    return (d.potential[nodes][:, None, :] - d.potential[None, :, :]) ** 2


@pytest.mark.parametrize("name", GRAPHS)
def test_a_gradient_step_reduces_the_diffusion_distance_after_the_time_of_the_proof(name: str) -> None:
    edge_index, n = GRAPHS[name]
    tested = 0
    for d, phi, step in both_signs(edge_index, n):
        before, after = squared_differences(d, torch.arange(n)), squared_differences(d, step)
        gain, rest = (before - after)[:, :, 0], (after - before)[:, :, 1:].abs().sum(dim=2)
        # phi_1(x) < phi_1(y), and the step does not overshoot y by more than it was away.
        pairs = (phi[:, None] < phi[None, :]) & (gain > 1e-6)
        slowest, next_slowest = d.eigenvalues[0, :2].tolist()
        constant = (gain / rest).log() / (2 * (slowest - next_slowest))
        for x, y in pairs.nonzero().tolist():
            time = max(1.001 * float(constant[x, y]), 0.0)
            if time * slowest > 10:
                continue  # heat is even to rounding by then
            distance = dgn.diffusion_distance(edge_index, n, time=time, measure="degree")
            assert distance[step[x], y] < distance[x, y]
            tested += 1
    assert tested > n


@pytest.mark.parametrize("name", ["path", "grid", "star with a tail"])
def test_the_reduction_decays_with_the_first_eigenvalue(name: str) -> None:
    """d_t(x, y)^2 - d_t(x', y)^2 = e^(-2 t lambda_1) (gain of phi_1) + O(e^(-2 t lambda_2))."""
    edge_index, n = GRAPHS[name]
    for d, _, step in both_signs(edge_index, n):
        before, after = squared_differences(d, torch.arange(n)), squared_differences(d, step)
        gain, rest = (before - after)[:, :, 0], (after - before)[:, :, 1:].abs().sum(dim=2)
        slowest, next_slowest = d.eigenvalues[0, :2].tolist()
        time = 5 / (next_slowest - slowest)
        squared = dgn.diffusion_distance(edge_index, n, time=time, measure="degree") ** 2
        rescaled = (squared - squared[step]) * torch.tensor(2 * time * slowest).exp()
        bound = rest * torch.tensor(-2 * time * (next_slowest - slowest)).exp() + 1e-9
        assert ((rescaled - gain).abs() <= bound).all()
        assert gain.abs().max() > 100 * bound.max()


@pytest.mark.parametrize("name", ["path", "grid", "star with a tail"])
def test_a_gradient_step_reduces_the_distance_as_the_paper_defines_it_in_the_end(name: str) -> None:
    """Without a measure other terms decay as e^(-t (lambda_1 + lambda_2)): by e^(-10) of the first one here."""
    edge_index, n = GRAPHS[name]
    for d, phi, step in both_signs(edge_index, n):
        gain = (squared_differences(d, torch.arange(n)) - squared_differences(d, step))[:, :, 0]
        pairs = (phi[:, None] < phi[None, :]) & (gain > 0.01)
        time = 10 / float(d.eigenvalues[0, 1] - d.eigenvalues[0, 0])
        distance = dgn.diffusion_distance(edge_index, n, time=time)
        assert (distance[step] < distance)[pairs].all()
        assert pairs.sum() > n


@pytest.mark.parametrize("measure", ["uniform", "degree"])
@pytest.mark.parametrize("time", [5.0, 10.0, 40.0])
def test_the_distance_grows_where_the_step_overshoots(measure: str, time: float) -> None:
    """The theorem needs |phi_1(x') - phi_1(y)| < |phi_1(x) - phi_1(y)|.

    On the tree 3 - 0 - 1 - 2 - {5, 6} the leaf 4 hangs from node 1 and lies a little above it, but the step from 1
    leads to 0, far above both.
    """
    edge_index, x, y = both_ways([(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (2, 6)]), 1, 4
    _, phi, step = next(sample for sample in both_signs(edge_index, 7) if sample[1][3] > 0)
    assert step[x] == 0
    assert phi[x] < phi[y] < phi[0]
    assert abs(phi[0] - phi[y]) > abs(phi[x] - phi[y])
    distance = dgn.diffusion_distance(edge_index, 7, time=time, measure=measure)  # type: ignore[arg-type]
    assert distance[0, y] > 2 * distance[x, y]
