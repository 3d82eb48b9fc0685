"""Ring counts against networkx, and their laws."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch

from dgn import Graph, as_graph
from dgn.encodings import ring_counts
from dgn.encodings.rings import simple_graph
from dgn.testing import (
    assert_batch_independent,
    assert_permutation_equivariant,
    complete,
    cycle,
    disjoint_union,
    edge_cases,
    grid,
    hypercube,
    random_graph,
    star,
)

SIZES = range(3, 9)
GRAPHS = {
    **edge_cases(),
    "grid": grid(3, 4),
    "cube": hypercube(3),
    "complete": complete(6),
    "ring of nine": cycle(9),
    "sparse": random_graph(14, 0.25, torch.Generator().manual_seed(2)),
    "dense": random_graph(9, 0.6, torch.Generator().manual_seed(3)),
}
NAPHTHALENE = torch.tensor([[0, 1, 2, 3, 4, 5, 4, 6, 7, 8, 9], [1, 2, 3, 4, 5, 0, 6, 7, 8, 9, 5]])


def listed(edge_index: torch.Tensor, num_nodes: int, induced: bool) -> tuple[np.ndarray, np.ndarray]:
    """Counts from a list of all cycles."""
    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from((a, b) for a, b in edge_index.T.tolist() if a != b)
    cycles = nx.chordless_cycles(graph, length_bound=8) if induced else nx.simple_cycles(graph, length_bound=8)
    nodes, edges = np.zeros((num_nodes, 6), int), np.zeros((edge_index.size(1), 6), int)
    for ring in (ring for ring in cycles if len(ring) >= 3):
        nodes[ring, len(ring) - 3] += 1
        sides = {frozenset(side) for side in pairwise([*ring, ring[0]])}
        for edge, ends in enumerate(edge_index.T.tolist()):
            edges[edge, len(ring) - 3] += frozenset(ends) in sides
    return nodes, edges


@pytest.mark.parametrize("induced", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_all_cycles_are_counted_once(name: str, induced: bool) -> None:
    edge_index, num_nodes = GRAPHS[name]
    nodes, edges = ring_counts(edge_index, SIZES, num_nodes, induced)
    expected = listed(edge_index, num_nodes, induced)
    np.testing.assert_array_equal(nodes, expected[0])
    np.testing.assert_array_equal(edges, expected[1])


def test_columns_are_in_the_order_of_sizes() -> None:
    assert ring_counts(NAPHTHALENE, [10, 6]).nodes.tolist() == [[0, 1 + (n in (4, 5))] for n in range(10)]
    assert ring_counts(NAPHTHALENE, [10, 6], induced=False).edges.sum(dim=0).tolist() == [10, 12]


def test_graphs_that_are_too_dense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at most 1000 edges to visit from a node, got more from node 0; .* of 8"):
        ring_counts(complete(12)[0], induced=False, limit=1000)


DENSE = random_graph(11, 0.7, torch.Generator().manual_seed(3))
TRIANGLES = {
    **edge_cases(),
    "union": disjoint_union(complete(5), star(9), cycle(3), DENSE)[:2],
    "denser": random_graph(60, 0.5, torch.Generator().manual_seed(4)),
    "complete": complete(150),
}


def test_laws() -> None:
    union = as_graph(*disjoint_union(grid(3, 3), complete(4), complete(5), cycle(5), (NAPHTHALENE, 10), DENSE))

    def nodes(graph: Graph) -> torch.Tensor:
        return ring_counts(graph).nodes.double()

    def edges(graph: Graph) -> torch.Tensor:
        return ring_counts(graph).edges.double()

    assert_permutation_equivariant(nodes, union)
    assert_permutation_equivariant(edges, union, output="edge")
    assert_batch_independent(nodes, union)
    assert_batch_independent(edges, union, output="edge")


@pytest.mark.parametrize("sizes", [[], [2, 3], [4, 4]])
def test_sizes_are_checked(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="sizes: expected different numbers from 3"):
        ring_counts(NAPHTHALENE, sizes)


@pytest.mark.parametrize("induced", [True, False])
@pytest.mark.parametrize("name", TRIANGLES)
def test_rings_of_three_are_common_neighbours(name: str, induced: bool) -> None:
    edge_index, num_nodes = TRIANGLES[name]
    source, target = edge_index
    joined = torch.zeros(num_nodes, num_nodes, dtype=torch.long)
    joined[source, target] = joined[target, source] = 1
    joined.fill_diagonal_(0)
    triangles = joined @ joined * joined
    counts = ring_counts(edge_index, [3], num_nodes, induced)
    assert counts.nodes.dtype == counts.edges.dtype == torch.int32
    assert torch.equal(counts.nodes[:, 0].long(), triangles.sum(dim=1) // 2)
    assert torch.equal(counts.edges[:, 0].long(), triangles[source, target])


def test_triangles_do_not_depend_on_directions_copies_self_loops_and_other_sizes() -> None:
    edge_index, num_nodes = DENSE
    once = edge_index[:, edge_index[0] < edge_index[1]]
    messy = torch.cat([once, once.flip(0)[:, ::3], once[:, ::5], torch.tensor([[4], [4]])], dim=1)
    plain = ring_counts(once, [3], num_nodes)
    edges = torch.cat([plain.edges, plain.edges[::3], plain.edges[::5], torch.zeros(1, 1, dtype=torch.int32)])
    for sizes in ([3], [5, 3], [3, 4], [4, 3, 8]):
        counts = ring_counts(messy, sizes, num_nodes)
        assert torch.equal(counts.nodes[:, [sizes.index(3)]], plain.nodes)
        assert torch.equal(counts.edges[:, [sizes.index(3)]], edges)


def test_links_lead_to_the_undirected_edges() -> None:
    random = np.random.default_rng(0)
    edge_index = random.integers(0, 9, (2, 60))
    low, high, links = simple_graph(edge_index, 9)
    assert (low < high).all()
    assert (np.diff(low * 9 + high) > 0).all()
    loop = edge_index[0] == edge_index[1]
    assert (links[loop] == len(low)).all()
    np.testing.assert_array_equal(np.sort(edge_index[:, ~loop], axis=0), [low[links[~loop]], high[links[~loop]]])


def test_the_simple_graph_of_an_empty_graph() -> None:
    assert [len(part) for part in simple_graph(np.zeros((2, 0), dtype=np.int64), 0)] == [0, 0, 0]
