"""What holds for numbers of rings and of cliques alike."""

from typing import Any

import pytest
import torch

from dgn import Graph, as_graph
from dgn.encodings import clique_counts, ring_counts
from dgn.testing import (
    assert_batch_independent,
    assert_permutation_equivariant,
    complete,
    cycle,
    disjoint_union,
    edge_cases,
    grid,
    random_graph,
    star,
)
from tests.encodings.test_rings import NAPHTHALENE

COUNTS = [ring_counts, clique_counts]
DENSE = random_graph(11, 0.7, torch.Generator().manual_seed(3))
TRIANGLES = {
    **edge_cases(),
    "union": disjoint_union(complete(5), star(9), cycle(3), DENSE)[:2],
    "denser": random_graph(60, 0.5, torch.Generator().manual_seed(4)),
    "complete": complete(150),
}


@pytest.mark.parametrize("count", COUNTS)
def test_laws(count: Any) -> None:
    union = as_graph(*disjoint_union(grid(3, 3), complete(4), complete(5), cycle(5), (NAPHTHALENE, 10), DENSE))

    def nodes(graph: Graph) -> torch.Tensor:
        return count(graph).nodes.double()

    def edges(graph: Graph) -> torch.Tensor:
        return count(graph).edges.double()

    assert_permutation_equivariant(nodes, union)
    assert_permutation_equivariant(edges, union, output="edge")
    assert_batch_independent(nodes, union)
    assert_batch_independent(edges, union, output="edge")


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("sizes", [[], [2, 3], [4, 4]])
def test_sizes_are_checked(count: Any, sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="sizes: expected different numbers from 3"):
        count(NAPHTHALENE, sizes)


@pytest.mark.parametrize("induced", [True, False])
@pytest.mark.parametrize("name", TRIANGLES)
def test_rings_of_three_are_cliques_of_three(name: str, induced: bool) -> None:
    edge_index, num_nodes = TRIANGLES[name]
    rings = ring_counts(edge_index, [3], num_nodes, induced)
    cliques = clique_counts(edge_index, [3], num_nodes)
    for ours, theirs in zip(rings, cliques, strict=True):
        assert ours.dtype == torch.int32
        assert torch.equal(ours, theirs.int())


def test_triangles_do_not_depend_on_directions_copies_self_loops_and_other_sizes() -> None:
    edge_index, num_nodes = DENSE
    once = edge_index[:, edge_index[0] < edge_index[1]]
    messy = torch.cat([once, once.flip(0)[:, ::3], once[:, ::5], torch.tensor([[4], [4]])], dim=1)
    plain = clique_counts(once, [3], num_nodes)
    edges = torch.cat([plain.edges, plain.edges[::3], plain.edges[::5], torch.zeros(1, 1, dtype=torch.long)])
    for sizes in ([3], [5, 3], [3, 4], [4, 3, 8]):
        for count in COUNTS:
            found = count(messy, sizes, num_nodes)
            assert torch.equal(found.nodes[:, [sizes.index(3)]].long(), plain.nodes)
            assert torch.equal(found.edges[:, [sizes.index(3)]].long(), edges)
