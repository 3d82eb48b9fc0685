"""Connected components: eigenvectors are taken of each one separately."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components


def components(adjacency: csr_array) -> NDArray[np.int64]:
    """Number the connected component of each node; components are numbered by their first node. [N]

    Directions of edges do not matter; every stored entry is an edge.

    >>> components(csr_array(np.array([[0, 0, 1], [0, 0, 0], [1, 0, 0]]))).tolist()
    [0, 1, 0]
    """
    if adjacency.shape[0] == 0:
        return np.zeros(0, dtype=np.int64)
    label = connected_components(adjacency, directed=False)[1]
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    return np.asarray(first.argsort().argsort()[inverse], dtype=np.int64)
