"""Named and random graphs for the spectral tests."""

from collections.abc import Callable
from itertools import combinations

import pytest
import torch
from torch import Tensor

from dgn import Graph, as_graph
from dgn.testing import graphs

Edges = tuple[Tensor, int]


def nodes(n: int) -> Edges:
    """No edges."""
    return torch.empty(2, 0, dtype=torch.long), n


def wheel(rim: int) -> Edges:
    """A cycle around node 0."""
    edges = [(0, i) for i in range(1, rim + 1)] + [(i, i % rim + 1) for i in range(1, rim + 1)]
    return torch.tensor(edges).t(), rim + 1


def barbell(n: int, bridge: int) -> Edges:
    """Two complete graphs of n nodes joined by a path with ``bridge`` nodes of its own."""
    size = 2 * n + bridge
    chain = [(i, i + 1) for i in range(n - 1, n + bridge)]
    return torch.tensor([*combinations(range(n), 2), *combinations(range(n + bridge, size), 2), *chain]).t(), size


def tree(n: int, seed: int) -> Edges:
    """A random tree with at most three edges at a node, like a molecule."""
    draw = torch.Generator().manual_seed(seed)
    free, edges = [0, 0, 0], []
    for node in range(1, n):
        edges.append((free.pop(int(torch.randint(len(free), (1,), generator=draw))), node))
        free += [node, node]
    return torch.tensor(edges, dtype=torch.long).reshape(-1, 2).t(), n


def connected(n: int, seed: int) -> Edges:
    """A random tree and about n / 2 further edges, no two alike."""
    draw = torch.Generator().manual_seed(seed)
    extra = torch.randint(n, (2, n // 2), generator=draw).sort(dim=0).values
    edges = torch.cat([tree(n, seed)[0].sort(dim=0).values, extra[:, extra[0] < extra[1]]], dim=1)
    return edges.unique(dim=1), n


BUILDERS: dict[str, Callable[..., Edges]] = {
    build.__name__: build
    for build in (
        *(graphs.path, graphs.cycle, graphs.star, graphs.complete, graphs.hypercube, graphs.grid),
        *(nodes, wheel, barbell, tree, connected),
    )
}


@pytest.fixture(scope="session")
def build() -> Callable[[str], Graph]:
    """``build("grid 3 4")`` is the graph of that name and size; ``"path 3 + nodes 1"`` are two side by side."""

    def side_by_side(description: str) -> Graph:
        parts = [part.split() for part in description.split(" + ")]
        built = [BUILDERS[name](*map(int, sizes)) for name, *sizes in parts]
        return as_graph(*graphs.disjoint_union(*built)[:2])

    return side_by_side


@pytest.fixture
def graph(request: pytest.FixtureRequest, build: Callable[[str], Graph]) -> Graph:
    """The graph that an indirect parameter describes."""
    return build(request.param)
