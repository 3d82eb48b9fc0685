"""Laws of the networks of ``benchmarks/fields/transport.py``."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch

from dgn.data.datasets.transport import generate_transport

ROOT = Path(__file__).parents[1]
NAMES = ("scheme of mean fwd1 bwd1 fwd2 bwd2", "mean dx1-signed dx2-signed av1, edges", "MeshGraphNets-like, edges")


@pytest.fixture(scope="module")
def benchmark() -> Any:
    return pytest.importorskip("benchmarks.fields.transport", reason="the benchmarks are not part of this installation")


@pytest.fixture(scope="module")
def networks(benchmark: Any) -> Any:
    return importlib.import_module(benchmark.make_network.__module__)


@pytest.fixture(scope="module")
def group(benchmark: Any) -> Any:
    graphs = generate_transport((2, 1, 1), trajectories=1, frames=2, spacing=0.1, seed=1)
    return benchmark.groups_of(graphs, 4, torch.device("cpu"))[0]


def change(networks: Any, name: str, group: Any, scalar: torch.Tensor) -> torch.Tensor:
    torch.manual_seed(0)
    with torch.no_grad():
        return networks.make_network(name, 8, 2).eval()(group.batch(scalar, scalar))[:, 0]


@pytest.mark.parametrize("name", NAMES)
def test_the_integral_is_conserved_and_constants_are_ignored(networks: Any, group: Any, name: str) -> None:
    scalar = group.frames[:, 0]
    once = change(networks, name, group, scalar)
    total = group.graph.sum_over_graph(once[:, None] * group.extra["area"])
    torch.testing.assert_close(total, torch.zeros_like(total), atol=1e-5, rtol=0)
    torch.testing.assert_close(change(networks, name, group, 2 * scalar + 3), 2 * once, atol=1e-4, rtol=1e-3)


def test_a_scheme_is_linear(networks: Any, group: Any) -> None:
    one, two = group.frames[:, 0], group.frames[:, 2] ** 2
    apart = [change(networks, NAMES[0], group, scalar) for scalar in (one, two)]
    torch.testing.assert_close(change(networks, NAMES[0], group, one + two), sum(apart), atol=1e-4, rtol=1e-3)


def test_the_wind_gradient_differentiates_linear_functions(networks: Any, group: Any) -> None:
    batch = group.batch(group.frames[:, 0], group.frames[:, 0])
    slope = torch.tensor([0.3, -0.7])
    difference = batch.edge_attr[:, :2] @ slope  # of a linear function, along each edge
    derivative = batch.graph.sum_to_target(networks.wind_gradient(batch) * difference[:, None])
    along = torch.nn.functional.normalize(batch.x[:, 1:3], dim=1)
    across = torch.stack([-along[:, 1], along[:, 0]], dim=1)
    torch.testing.assert_close(derivative, torch.stack([along @ slope, across @ slope], 1), atol=1e-3, rtol=1e-3)


def test_the_limiter_keeps_the_range_of_the_neighbourhood(networks: Any, group: Any) -> None:
    before = group.frames[:, 0]
    after = before + 10 * torch.randn(len(before), generator=torch.Generator().manual_seed(0))
    limited = networks.limit(group.graph, before, after)
    assert limited.max() <= before.max()
    assert limited.min() >= before.min()
    torch.testing.assert_close(networks.limit(group.graph, before, before), before)
