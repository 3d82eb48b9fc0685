"""The undirected simple graph behind a list of edges."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class SimpleGraph(NamedTuple):
    """Undirected edges, each once, sorted by their ``low`` and then their ``high`` end, and where to find them.

    Shapes:
        ``low`` and ``high`` [U]; ``links`` [E], the undirected edge of each given one, U for a self-loop.
    """

    low: NDArray[Any]
    high: NDArray[Any]
    links: NDArray[Any]


def simple_graph(edge_index: NDArray[Any], num_nodes: int) -> SimpleGraph:
    """Without directions, copies of edges and self-loops.

    Shapes:
        ``edge_index`` [2, E].

    >>> simple_graph(np.array([[0, 1, 1, 2], [1, 0, 1, 1]]), 3)
    SimpleGraph(low=array([0, 1]), high=array([1, 2]), links=array([0, 0, 2, 1]))
    """
    low, high = edge_index.min(axis=0), edge_index.max(axis=0)
    proper = low < high
    keys, number = np.unique(low[proper] * num_nodes + high[proper], return_inverse=True)
    links = np.full(len(low), len(keys))
    links[proper] = number
    return SimpleGraph(keys // max(num_nodes, 1), keys % max(num_nodes, 1), links)
