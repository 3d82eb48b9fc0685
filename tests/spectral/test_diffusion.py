"""Heat kernels are transition probabilities, and diffusion distances are distances between their rows."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import dgn
from dgn import Graph

GRAPHS = [
    "nodes 0",
    "nodes 2",
    "path 2",
    "path 6",
    "cycle 7",
    "star 4",
    "complete 5",
    "hypercube 3",
    "connected 12 0",
    "path 3 + nodes 1 + cycle 4",
]
every_graph = pytest.mark.parametrize("graph", GRAPHS, indirect=True)
CLOSE = {"atol": 1e-12, "rtol": 0.0}


@pytest.fixture(params=["eigenvectors", "action"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to the exponential, on graphs of any size but 0."""
    monkeypatch.setattr("dgn.spectral.diffusion.LARGEST_DENSE", {"eigenvectors": 10**6, "action": 0}[request.param])
    return str(request.param)


def weights(graph: Graph) -> torch.Tensor:
    return 0.1 + torch.rand(graph.num_edges, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("time", [0.0, 0.3, 2.0, 30.0])
@every_graph
@pytest.mark.usefixtures("route")
def test_heat_kernel_is_the_matrix_exponential(graph: Graph, time: float, weighted: bool) -> None:
    weight = weights(graph) if weighted else None
    matrix = dgn.laplacian(graph, normalization="rw", edge_weight=weight).to_dense()
    ours = dgn.heat_kernel(graph, time=time, edge_weight=weight)
    assert ours.dtype == torch.float64
    torch.testing.assert_close(ours, torch.linalg.matrix_exp(-time * matrix), **CLOSE)


@pytest.mark.parametrize("time", [0.0, 0.5, 7.0])
@every_graph
@pytest.mark.usefixtures("route")
def test_rows_are_probabilities_that_compose(graph: Graph, time: float) -> None:
    n = graph.num_nodes
    kernel = dgn.heat_kernel(graph, time=time)
    assert (kernel >= 0).all()
    torch.testing.assert_close(kernel.sum(dim=1), torch.ones(n, dtype=torch.float64), **CLOSE)
    torch.testing.assert_close(kernel @ kernel, dgn.heat_kernel(graph, time=2 * time), **CLOSE)
    torch.testing.assert_close(dgn.heat_kernel(graph, time=0.0), torch.eye(n, dtype=torch.float64), **CLOSE)


@every_graph
def test_walks_are_reversible_and_stay_in_their_component(graph: Graph) -> None:
    kernel = dgn.heat_kernel(graph, time=1.5)
    degree = dgn.laplacian(graph).to_dense().diagonal()
    flow = degree[:, None] * kernel
    torch.testing.assert_close(flow, flow.T, **CLOSE)
    component = dgn.directions(graph, k=1).component
    assert torch.equal(kernel > 1e-13, component[:, None] == component[None, :])


@pytest.mark.parametrize("graph", ["connected 12 1", "star 5"], indirect=True)
def test_heat_ends_in_proportion_to_degree(graph: Graph) -> None:
    degree = dgn.laplacian(graph).to_dense().diagonal()
    end = (degree / degree.sum()).expand(graph.num_nodes, -1)
    torch.testing.assert_close(dgn.heat_kernel(graph, time=2000.0), end, **CLOSE)


@pytest.mark.parametrize("graph", ["path 60", "connected 40 1 + cycle 5 + nodes 1"], indirect=True)
def test_heat_is_conserved(graph: Graph) -> None:
    total = dgn.heat_kernel(graph, time=1e300).sum(dim=1)
    torch.testing.assert_close(total, torch.ones_like(total), **CLOSE)


@pytest.mark.usefixtures("route")
def test_sources_choose_rows(build: Callable[[str], Graph]) -> None:
    graph, sources = build("connected 12 2"), torch.tensor([7, 0, 7])
    everything = dgn.heat_kernel(graph, time=1.0)
    torch.testing.assert_close(dgn.heat_kernel(graph, time=1.0, sources=sources), everything[sources], **CLOSE)
    distance = dgn.diffusion_distance(graph, time=1.0)
    some = dgn.diffusion_distance(graph, time=1.0, sources=sources)
    torch.testing.assert_close(some, distance[sources][:, sources], **CLOSE)


def test_large_graphs_use_the_action_of_the_exponential(build: Callable[[str], Graph]) -> None:
    """On a long cycle the walk has not met its tail: rows of two lengths of cycle agree."""
    start = torch.tensor([0, 5])
    long, short = (dgn.heat_kernel(build(f"cycle {n}"), time=3.0, sources=start) for n in (2500, 101))
    torch.testing.assert_close(long[:, :45], short[:, :45], **CLOSE)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("measure", ["uniform", "degree"])
@pytest.mark.parametrize("graph", ["path 5", "star 4", "connected 10 3", "path 3 + nodes 1"], indirect=True)
@pytest.mark.usefixtures("route")
def test_diffusion_distance_is_its_definition(graph: Graph, measure: str, weighted: bool) -> None:
    weight = weights(graph) if weighted else None
    degree = dgn.laplacian(graph, edge_weight=weight).to_dense().diagonal()
    kernel = torch.linalg.matrix_exp(-0.7 * dgn.laplacian(graph, normalization="rw", edge_weight=weight).to_dense())
    expected = torch.zeros_like(kernel)
    mean = degree[degree > 0].mean()
    for x in range(graph.num_nodes):
        for y in range(graph.num_nodes):
            total = 0.0
            for z in range(graph.num_nodes):
                mu = float(degree[z] / mean) if measure == "degree" and degree[z] > 0 else 1.0
                total += float(kernel[x, z] - kernel[y, z]) ** 2 / mu
            expected[x, y] = total**0.5
    ours = dgn.diffusion_distance(graph, time=0.7, measure=measure, edge_weight=weight)  # type: ignore[arg-type]
    torch.testing.assert_close(ours, expected, **CLOSE)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("time", [0.0, 0.4, 3.0])
@pytest.mark.parametrize("graph", ["path 6", "star 5", "cycle 6", "barbell 3 1", "connected 11 4"], indirect=True)
def test_the_degree_measure_gives_the_papers_sum_over_eigenvectors(graph: Graph, time: float, weighted: bool) -> None:
    weight = weights(graph) if weighted else None
    d = dgn.directions(graph, k=graph.num_nodes - 1, normalization="rw", edge_weight=weight)
    difference = d.potential[:, None, :] - d.potential[None, :, :]
    expected = ((-2 * time * d.eigenvalues[0]).exp() * difference**2).sum(dim=2).sqrt()
    ours = dgn.diffusion_distance(graph, time=time, measure="degree", edge_weight=weight)
    torch.testing.assert_close(ours, expected, **CLOSE)


@pytest.mark.parametrize(
    ("graph", "agree"), [("cycle 8", True), ("complete 5", True), ("star 4", False)], indirect=["graph"]
)
def test_measures_agree_on_regular_graphs(graph: Graph, agree: bool) -> None:
    uniform, degree = (dgn.diffusion_distance(graph, measure=m) for m in ("uniform", "degree"))
    assert torch.allclose(uniform, degree, **CLOSE) == agree


@settings(deadline=None, max_examples=15, derandomize=True)
@given(n=st.integers(2, 12), seed=st.integers(0, 10**6), time=st.floats(0.0, 5.0))
def test_diffusion_distance_is_a_metric_that_relabels_with_the_nodes(
    build: Callable[[str], Graph], n: int, seed: int, time: float
) -> None:
    graph = build(f"connected {n} {seed}")
    distance = dgn.diffusion_distance(graph, time=time)
    torch.testing.assert_close(distance, distance.T, **CLOSE)
    assert not distance.diagonal().any()
    assert (distance[:, None, :] <= distance[:, :, None] + distance[None, :, :] + 1e-12).all()
    name = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    renamed = dgn.diffusion_distance(name[graph.edge_index], n, time=time)
    torch.testing.assert_close(renamed[name][:, name], distance, atol=1e-10, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@settings(deadline=None, max_examples=40, derandomize=True)
@given(n=st.integers(1, 7), pairs=st.lists(st.integers(0, 48), max_size=20), levels=st.lists(st.integers(0, 3)))
def test_gradient_step_climbs_to_the_highest_neighbour(
    n: int, pairs: list[int], levels: list[int], dtype: torch.dtype
) -> None:
    """Directed edges, parallel ones and ties included; the lowest number wins among equals."""
    edges = [(pair // 7 % n, pair % 7 % n) for pair in pairs if pair // 7 % n != pair % 7 % n]
    potential = [(levels + [0] * n)[i] for i in range(n)]
    expected = []
    for x in range(n):
        neighbours = sorted({z for z, target in edges if target == x})
        expected.append(max(neighbours, key=lambda z: (potential[z], -z)) if neighbours else x)
    edge_index = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t()
    assert dgn.gradient_step(torch.tensor(potential, dtype=dtype), edge_index).tolist() == expected


def test_gradient_steps_of_several_potentials_are_those_of_each(build: Callable[[str], Graph]) -> None:
    graph = build("connected 12 5")
    potential = dgn.directions(graph, k=3).potential
    together = dgn.gradient_step(potential, graph)
    assert together.shape == (12, 3)
    for k in range(3):
        assert torch.equal(together[:, k], dgn.gradient_step(potential[:, k], graph))


def test_gradient_step_without_nodes(build: Callable[[str], Graph]) -> None:
    assert dgn.gradient_step(torch.empty(0, 2), build("nodes 0")).shape == (0, 2)
