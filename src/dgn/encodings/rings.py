"""Counts of the rings of each size through each node and each edge."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.graph import as_graph
from dgn.graph.checks import check_package

SIZES = range(3, 9)
LIMIT = 1_000_000  # edges visited from one node, at most


class Rings(NamedTuple):
    """Ring counts, one column for each size.

    Shapes:
        ``nodes`` [N, S] and ``edges`` [E, S], int32.
    """

    nodes: Tensor
    edges: Tensor


def ring_counts(
    edge_index: Any,
    sizes: Iterable[int] = SIZES,
    num_nodes: int | None = None,
    induced: bool = True,
    limit: int = LIMIT,
) -> Rings:
    """The counts of rings of each size through each node and each edge.

    A ring is a cycle that visits no node twice and, with ``induced``, has no chord: the only edges between its nodes
    are its own. Chordless cycles are the rings of chemistry: naphthalene has two rings of 6, and no ring of 10. Without
    ``induced`` all simple cycles are counted, among them its outline.

    Directions, self-loops and parallel edges do not matter: cycles are those of the undirected simple graph, and every
    copy of an edge, in either direction, has the count of its undirected edge; a self-loop has 0.

    Laws: relabelling reorders; the result for a graph in a batch is that for the graph alone. The counts of a size sum
    to size times the number of such rings, over nodes and over undirected edges alike.

    The number of paths grows like degree to the power of size. A graph in which more than ``limit`` edges
    would be visited from a single node is refused; molecules need a few hundred. Needs Numba.

    Shapes:
        ``edge_index`` [2, E], a ``Graph``, a PyG ``Data`` or ``PackedGraphs``; returns ``nodes`` [N, S] and ``edges``
        [E, S].

    >>> square = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])  # with a diagonal
    >>> ring_counts(square, sizes=[3, 4]).nodes.tolist(), ring_counts(square, sizes=[3, 4]).edges.tolist()
    ([[2, 0], [1, 0], [2, 0], [1, 0]], [[1, 0], [1, 0], [1, 0], [1, 0], [2, 0]])
    >>> ring_counts(square, sizes=[3, 4], induced=False).nodes[:, 1].tolist()
    [1, 1, 1, 1]
    """
    column = columns_of(sizes := check_sizes(sizes))
    check_package("ring_counts", "numba")
    from dgn.kernels.numba.rings import count_rings

    graph = as_graph(edge_index, num_nodes)
    simple = simple_graph(graph.edge_index.cpu().numpy(), graph.num_nodes)
    pointer, neighbor, link = _neighbors(simple, graph.num_nodes)
    nodes = np.zeros((graph.num_nodes, len(sizes)), dtype=np.int32)
    edges = np.zeros((len(simple.low) + 1, len(sizes)), dtype=np.int32)  # the last row is that of self-loops
    over_limit = count_rings(pointer, neighbor, link, column, induced, limit, nodes, edges)
    if over_limit >= 0:
        raise ValueError(
            f"ring_counts: expected at most {limit} edges to visit from a node, got more from node {over_limit}; the "
            f"graph is too dense for cycles of {max(sizes)} nodes: leave out large sizes, or raise limit"
        )
    device = graph.edge_index.device
    return Rings(torch.from_numpy(nodes).to(device), torch.from_numpy(edges[simple.links]).to(device))


def check_sizes(sizes: Iterable[int]) -> tuple[int, ...]:
    """``sizes`` as a tuple; raises unless they are distinct and at least 3."""
    checked = tuple(sizes)
    if not checked or len(set(checked)) < len(checked) or min(checked) < 3:
        raise ValueError(
            f"sizes: expected different numbers from 3, got {list(checked)}; for example [3, 4, 5, 6, 7, 8]"
        )
    return checked


def columns_of(sizes: tuple[int, ...]) -> NDArray[np.int64]:
    """The column of each size, -1 for sizes without one."""
    column = np.full(max(sizes) + 1, -1, dtype=np.int64)
    column[list(sizes)] = np.arange(len(sizes))
    return column


class SimpleGraph(NamedTuple):
    """Undirected edges, each once, sorted by their ``low`` and then their ``high`` end.

    Shapes:
        ``low`` and ``high`` [U]; ``links`` [E], the undirected edge of each directed one, U for a self-loop.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    links: NDArray[Any]


def simple_graph(edge_index: NDArray[Any], num_nodes: int) -> SimpleGraph:
    """The undirected simple graph: without directions, parallel edges and self-loops.

    Shapes:
        ``edge_index`` [2, E].

    >>> simple_graph(np.array([[0, 1, 1, 2], [1, 0, 1, 1]]), 3)
    SimpleGraph(low=array([0, 1]), high=array([1, 2]), links=array([0, 0, 2, 1]))
    """
    low, high = edge_index.min(axis=0), edge_index.max(axis=0)
    proper = low < high
    keys, index = np.unique(low[proper] * num_nodes + high[proper], return_inverse=True)
    links = np.full(len(low), len(keys))
    links[proper] = index
    return SimpleGraph(keys // max(num_nodes, 1), keys % max(num_nodes, 1), links)


def _neighbors(simple: SimpleGraph, num_nodes: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Adjacency lists in CSR form: pointer, neighbours, and the undirected edges that lead to them."""
    low, high = simple.low, simple.high
    ends = np.concatenate([low, high])
    order = np.argsort(ends, kind="stable")
    pointer = np.searchsorted(ends[order], np.arange(num_nodes + 1))
    return pointer, np.concatenate([high, low])[order], np.tile(np.arange(len(low)), 2)[order]
