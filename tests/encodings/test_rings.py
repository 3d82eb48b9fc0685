"""Numbers of rings against networkx and their laws."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
import torch

from dgn.encodings import ring_counts
from dgn.testing import (
    complete,
    cycle,
    edge_cases,
    grid,
    hypercube,
    random_graph,
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
        for number, ends in enumerate(edge_index.T.tolist()):
            edges[number, len(ring) - 3] += frozenset(ends) in sides
    return nodes, edges


@pytest.mark.parametrize("induced", [True, False])
@pytest.mark.parametrize("name", GRAPHS)
def test_all_cycles_are_counted_once(name: str, induced: bool) -> None:
    edge_index, num_nodes = GRAPHS[name]
    nodes, edges = ring_counts(edge_index, SIZES, num_nodes, induced)
    expected = listed(edge_index, num_nodes, induced)
    np.testing.assert_array_equal(nodes, expected[0])
    np.testing.assert_array_equal(edges, expected[1])


def test_columns_are_the_sizes_as_they_were_asked_for() -> None:
    assert ring_counts(NAPHTHALENE, [10, 6]).nodes.tolist() == [[0, 1 + (n in (4, 5))] for n in range(10)]
    assert ring_counts(NAPHTHALENE, [10, 6], induced=False).edges.sum(dim=0).tolist() == [10, 12]


def test_graphs_that_are_too_dense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at most 1000 edges to look at from a node, got more from node 0; .* of 8"):
        ring_counts(complete(12)[0], induced=False, limit=1000)
