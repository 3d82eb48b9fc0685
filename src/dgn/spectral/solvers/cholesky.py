r"""Approximate Cholesky factor of a graph Laplacian, and a fast solver of :math:`(D - A) x = b` with it (Numba).

Exact elimination of a node joins all its neighbours to each other. Here each neighbour but one is joined to a single
other one, drawn at random so that the expectation is exact (Kyng and Sachdeva 2016; Gao, Kyng and Spielman 2023). The
factor then has about as many entries as the graph has edges, and preconditions it well whatever its shape.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from dgn.kernels.numba.cholesky_elimination import eliminate
from dgn.kernels.numba.cholesky_substitution import substitute
from dgn.kernels.numba.threads import for_chunks

Array = NDArray[np.float64]

WIDTH = 8  # columns solved together, at most; more would not fit into the cache


@dataclass(frozen=True, eq=False, repr=False)
class Factor:
    r"""The approximation :math:`D - A \approx F \Delta F^\top`, with F unit lower triangular.

    Rows and columns are numbered in the order of elimination, and ``order`` [n] holds the nodes in that order. Column
    c of F has ``-entry`` in the rows ``row[first[c] : first[c + 1]]``; ``inverse`` [n] is the inverse of
    :math:`\Delta`, and 0 for the last node of each component.
    """

    order: NDArray[np.uint32]
    first: NDArray[np.uint32]
    row: NDArray[np.uint32]
    entry: NDArray[np.float32]
    inverse: NDArray[np.float32]

    def __repr__(self) -> str:
        return f"Factor(nodes={len(self.order)}, entries={len(self.entry)})"

    def solve(self, right: Array, target: Array | None = None, first: int = 0) -> Array:
        """Apply the inverse of the approximation to each column of ``right``, up to a constant per component.

        Columns should add up to 0 on each component. The arithmetic is float32, which is enough for a
        preconditioner. Columns are independent, and distributed over threads. The result is written to the
        columns of ``target`` from ``first`` on, if it is given. [n, m] -> [n, m]
        """
        right = np.ascontiguousarray(right, dtype=np.float64)
        target = np.empty_like(right) if target is None else target
        count = right.shape[1]
        groups = max(1, -(-count // WIDTH), min(torch.get_num_threads(), count // 4))
        bound = [group * count // groups for group in range(groups + 1)]
        arrays = self.order, self.first, self.row, self.entry, self.inverse

        def solve_groups(begin: int, end: int) -> None:
            for group in range(begin, end):
                substitute(*arrays, right, bound[group], bound[group + 1], target, first)

        for_chunks(solve_groups, groups, 1)
        return target


def near_numbering(adjacency: csr_array) -> NDArray[np.int64]:
    """Nodes in an order (reverse Cuthill-McKee) that puts neighbours near each other in memory. [n]"""
    return np.asarray(reverse_cuthill_mckee(adjacency, symmetric_mode=True), dtype=np.int64)


def renumbered(matrix: csr_array, order: NDArray[np.int64]) -> csr_array:
    """The matrix with rows and columns in another order, columns ascending in each row."""
    result = csr_array(matrix[order, :][:, order])
    result.sort_indices()
    return result


def approximate_cholesky(adjacency: csr_array, seed: int = 0) -> Factor:
    r"""An approximate Cholesky factor of D - A, by randomised elimination.

    ``adjacency`` is symmetric with positive weights and an empty diagonal. Nodes are eliminated by their number of
    edges at the time, fewest first. The time is nearly linear in the number of edges, and several times shorter if
    neighbours are near each other in memory (:func:`near_numbering`).

    Laws:
        - bitwise reproducible for the same matrix and seed;
        - on a forest the factor is exact;
        - :math:`F \Delta F^\top` is symmetric positive semidefinite, and its kernel holds the vectors that are
          constant on each component, to float32.

    >>> path = csr_array(np.array([[0.0, 2.0, 0.0], [2.0, 0.0, 1.0], [0.0, 1.0, 0.0]]))
    >>> x = approximate_cholesky(path).solve(np.array([[2.0], [0.0], [-2.0]]))
    >>> (x - x[0]).round(6).tolist()
    [[0.0], [-1.0], [-3.0]]
    """
    assert adjacency.nnz < 2**32, "slots are numbered with 32 bits"
    matrix = adjacency if adjacency.has_sorted_indices else adjacency.sorted_indices()
    start, column = matrix.indptr.astype(np.uint32), matrix.indices.astype(np.uint32)
    order, pivot, first, row, entry = eliminate(start, column, matrix.data.astype(np.float64), seed)
    place = np.empty_like(order)
    place[order] = np.arange(len(order), dtype=np.uint32)
    inverse = np.divide(1.0, pivot, out=np.zeros_like(pivot), where=pivot > 0)
    return Factor(order, first, place[row], entry, inverse.astype(np.float32))
