"""Small components of a graph, all at once."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dgn.spectral.solvers.dense import Solution, solve_dense


def solve_small(
    matrix: csr_array,
    symmetric: csr_array,
    trivial: NDArray[np.float64],
    label: NDArray[np.int64],
    sizes: NDArray[np.int64],
    largest: int,
    count: int,
    by_degree: bool,
    direct: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """All components of 2 to ``largest`` nodes, by the ``direct`` solver or by LAPACK: values [C, count], vectors."""
    if direct:
        from dgn.spectral.solvers.direct import Edges, solve_direct

        small = np.flatnonzero((sizes > 1) & (sizes <= largest))
        return solve_direct(Edges.of(matrix), label, small, count, by_degree)[:2]
    values, vectors = np.full((len(sizes), count), np.nan), np.zeros((len(label), count))
    for found in solve_dense(symmetric, trivial, label, largest, count):
        store(found, values, vectors)
    return values, vectors


def store(found: Solution, values: NDArray[np.float64], vectors: NDArray[np.float64]) -> None:
    """Put pairs of some components among those of all."""
    count = found.values.shape[1]
    values[found.component, :count] = found.values
    vectors[found.nodes, :count] = found.vectors
