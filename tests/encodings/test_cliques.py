"""Numbers of cliques against all sets of nodes, and their laws."""

from itertools import combinations
from math import comb

import numpy as np
import pytest
import torch

from dgn.encodings import clique_counts
from dgn.testing import (
    complete,
    edge_cases,
    grid,
    random_graph,
)

SIZES = (3, 4, 5, 6)
GRAPHS = {
    **edge_cases(),
    "grid": grid(3, 4),
    "complete": complete(7),
    "sparse": random_graph(14, 0.3, torch.Generator().manual_seed(2)),
    "dense": random_graph(11, 0.7, torch.Generator().manual_seed(3)),
}


def listed(edge_index: torch.Tensor, num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts from all sets of nodes."""
    joined = {frozenset(ends) for ends in edge_index.T.tolist() if ends[0] != ends[1]}
    nodes, edges = np.zeros((num_nodes, len(SIZES)), int), np.zeros((edge_index.size(1), len(SIZES)), int)
    for column, size in enumerate(SIZES):
        for chosen in combinations(range(num_nodes), size):
            pairs = {frozenset(pair) for pair in combinations(chosen, 2)}
            if pairs <= joined:
                nodes[list(chosen), column] += 1
                edges[:, column] += [frozenset(ends) in pairs for ends in edge_index.T.tolist()]
    return nodes, edges


@pytest.mark.parametrize("name", GRAPHS)
def test_all_cliques_are_counted_once(name: str) -> None:
    edge_index, num_nodes = GRAPHS[name]
    nodes, edges = clique_counts(edge_index, SIZES, num_nodes)
    expected = listed(edge_index, num_nodes)
    np.testing.assert_array_equal(nodes, expected[0])
    np.testing.assert_array_equal(edges, expected[1])


def test_complete_graphs_are_known_and_columns_are_as_asked_for() -> None:
    nodes, edges = clique_counts(complete(12)[0], [5, 3, 20])
    assert nodes.unique(dim=0).tolist() == [[comb(11, 4), comb(11, 2), 0]]
    assert edges.unique(dim=0).tolist() == [[comb(10, 3), comb(10, 1), 0]]


def test_sums_over_nodes_and_edges_agree() -> None:
    edge_index, num_nodes = random_graph(40, 0.5, torch.Generator().manual_seed(5))
    once = edge_index[:, edge_index[0] < edge_index[1]]
    nodes, edges = (part.sum(dim=0) for part in clique_counts(once, SIZES, num_nodes))
    size = torch.tensor(SIZES)
    assert torch.equal(nodes * (size - 1), edges * 2)
    assert bool((nodes % size == 0).all())
    assert int(nodes.min()) > 0


def test_directions_copies_and_self_loops_do_not_matter() -> None:
    edge_index, num_nodes = GRAPHS["dense"]
    once = edge_index[:, edge_index[0] < edge_index[1]]
    messy = torch.cat([once, once.flip(0)[:, ::3], torch.tensor([[4], [4]])], dim=1)
    plain, odd = clique_counts(once, SIZES, num_nodes), clique_counts(messy, SIZES, num_nodes)
    assert torch.equal(odd.nodes, plain.nodes)
    zero = torch.zeros(1, len(SIZES), dtype=torch.long)
    assert torch.equal(odd.edges, torch.cat([plain.edges, plain.edges[::3], zero]))


def test_graphs_that_are_too_dense_are_refused() -> None:
    with pytest.raises(ValueError, match=r"at most 1000 neighbours to look at from a node, got more from node 3; .* 5"):
        clique_counts(complete(15)[0] + 3, limit=1000)
