"""Eigenpairs of connected components, by the solvers that :mod:`dgn.spectral.solvers.select` chooses."""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dgn.kernels.numba.threads import one_blas_thread
from dgn.spectral.solvers.dense import Solution, solve_dense
from dgn.spectral.solvers.select import Solver, may_rescue
from dgn.spectral.solvers.shift_invert import solve_shift_invert

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


def solve_small(
    matrix: csr_array,
    symmetric: csr_array,
    trivial: Array,
    label: Integers,
    sizes: Integers,
    largest: int,
    count: int,
    by_degree: bool,
    solver: Solver,
) -> tuple[Array, Array]:
    """Eigenvalues [C, count] and vectors [N, count] of all components of 2 to ``largest`` nodes."""
    if solver == "direct":
        from dgn.graph.components import members
        from dgn.spectral.solvers.direct import Edges, solve_direct

        small = np.flatnonzero((sizes > 1) & (sizes <= largest))
        return solve_direct(Edges.of(matrix), label, members(label), small, count, by_degree)[:2]
    values, vectors = np.full((len(sizes), count), np.nan), np.zeros((len(label), count))
    for solution in solve_dense(symmetric, trivial, label, largest, count):
        store(solution, values, vectors)
    return values, vectors


def store(solution: Solution, values: Array, vectors: Array) -> None:
    """Write the eigenpairs of some components to the arrays of all."""
    count = solution.values.shape[1]
    values[solution.component, :count] = solution.values
    vectors[solution.nodes, :count] = solution.vectors


def solve_large(
    adjacency: csr_array, symmetric: csr_array, trivial: Array, count: int, solver: Solver, start: Array | None = None
) -> tuple[Array, Array]:
    """The lowest non-trivial eigenpairs of the Laplacian ``symmetric`` of one connected component.

    The iteration starts from the vectors ``start`` [n, s], if given; where it does not converge, an exact
    factorisation takes over on components that are not too large. ``trivial`` is the unit vector of eigenvalue 0.

    Returns ``values [count]`` and ``vectors [n, count]``; raises ``ArithmeticError`` where they are not accurate.
    """
    if solver == "lobpcg":
        from dgn.spectral.solvers.lobpcg import solve_lobpcg

        try:
            with np.errstate(over="ignore", invalid="ignore"):  # weights beyond the range of float32 do not converge
                return solve_lobpcg(adjacency, symmetric, trivial, count, start)
        except ArithmeticError:
            if not may_rescue(symmetric.shape[0]):
                raise
    with one_blas_thread():
        return solve_shift_invert(adjacency, symmetric, trivial, count)
