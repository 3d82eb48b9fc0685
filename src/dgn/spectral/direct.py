"""Eigenvectors of many small components (Numba): parallel over components, only the wanted vectors."""

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dgn.graph.components import members
from dgn.spectral.tridiagonal import lowest
from dgn.threads import for_chunks

Array = NDArray[np.float64]


def solve_direct(
    laplacian: csr_array, component: NDArray[np.int64], trivial: Array, chosen: NDArray[np.int64], count: int
) -> tuple[Array, Array]:
    """The lowest non-trivial eigenpairs of some components of a symmetric Laplacian.

    ``trivial`` [N] is the vector of eigenvalue 0, of any length; ``chosen`` are the components to solve, of two or
    more nodes each. Components do not see each other: the result has the same bits for any number of threads.

    Returns values [components, count] and vectors [N, count], with NaN and 0 where there are none.
    """
    size, start, nodes, place = members(component)
    values = np.full((len(size), count), np.nan)
    vectors = np.zeros((len(component), count))
    matrix = csr_array(laplacian)
    rows, columns = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    arrays = rows, columns, matrix.data, nodes, place, start, size, trivial, chosen, values, vectors
    for_chunks(lambda begin, end: _solve(begin, end, *arrays), len(chosen), 16)
    return values, vectors


@njit(cache=True, nogil=True, error_model="numpy")
def _solve(first, last, rows, columns, data, by_component, place, start, size, trivial, chosen, values, vectors):
    for number in range(first, last):
        member = chosen[number]
        n = size[member]
        nodes = by_component[start[member] : start[member] + n]
        matrix = np.zeros((n, n))
        constant = np.empty(n)
        for a in range(n):
            constant[a] = trivial[nodes[a]]
            for entry in range(rows[nodes[a]], rows[nodes[a] + 1]):
                matrix[a, place[columns[entry]]] = data[entry]
        constant /= np.sqrt(np.dot(constant, constant))
        found = min(values.shape[1], n - 1)
        mine = np.empty((found + 1, n))
        lowest(matrix, constant, values[member, :found], mine)
        for a in range(n):
            for q in range(found):
                vectors[nodes[a], q] = mine[q + 1, a]
