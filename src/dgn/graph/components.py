"""Connected components of a graph; eigenvectors are computed for each one separately."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components


def components(adjacency: csr_array) -> NDArray[np.int64]:
    """The connected component of each node; components are numbered by their first node. [N]

    Directions of edges do not matter; every stored entry is an edge.

    >>> components(csr_array(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]]))).tolist()
    [0, 1, 0]
    """
    if adjacency.shape[0] == 0:
        return np.zeros(0, dtype=np.int64)
    label = connected_components(adjacency, directed=False)[1]
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return np.asarray(first.argsort().argsort()[inverse], dtype=np.int64)


class Members(NamedTuple):
    """Nodes grouped by component.

    The nodes of component c are ``nodes[start[c] : start[c] + size[c]]``, in their order in the graph; ``place`` [N]
    is the index of each node within its component.
    """

    size: NDArray[np.int64]
    start: NDArray[np.int64]
    nodes: NDArray[np.int64]
    place: NDArray[np.int64]


def members(component: NDArray[np.int64]) -> Members:
    """The nodes of each component.

    >>> members(np.array([0, 1, 0])).nodes.tolist(), members(np.array([0, 1, 0])).place.tolist()
    ([0, 2, 1], [0, 0, 1])
    """
    size = np.bincount(component)
    start = size.cumsum() - size
    nodes = component.argsort(kind="stable")
    place = np.empty_like(component)
    place[nodes] = np.arange(len(component)) - start[component[nodes]]
    return Members(size, start, nodes, place)
