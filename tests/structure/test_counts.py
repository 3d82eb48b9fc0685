"""What holds for numbers of rings and of cliques alike."""

from typing import Any

import pytest
import torch

from dgn import Graph, as_graph
from dgn.structure import clique_counts, ring_counts
from dgn.testing import (
    assert_batch_independent,
    assert_permutation_equivariant,
    complete,
    cycle,
    disjoint_union,
    grid,
    random_graph,
)
from tests.structure.test_rings import NAPHTHALENE

COUNTS = [ring_counts, clique_counts]
DENSE = random_graph(11, 0.7, torch.Generator().manual_seed(3))


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
