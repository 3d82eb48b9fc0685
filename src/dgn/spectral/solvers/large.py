"""Eigenvectors of one large component: which solver."""

from importlib.util import find_spec

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dgn.kernels.numba.threads import one_blas_thread
from dgn.spectral.solvers.shift_invert import solve_sparse

Array = NDArray[np.float64]

LARGEST_EXACT = 4000  # nodes up to which an exact factorisation is done before Numba's kernels are loaded
LARGEST_RESCUE = 50_000  # nodes up to which an exact factorisation takes over where the iteration does not converge


def solve_large(
    adjacency: csr_array, symmetric: csr_array, trivial: Array, count: int, start: Array | None = None
) -> tuple[Array, Array]:
    """The lowest non-trivial eigenpairs of the Laplacian ``symmetric`` of one connected component.

    By an exact factorisation of small components and wherever Numba is missing, else by iteration with an approximate
    one, from the vectors ``start`` [n, s] if there are any. ``trivial`` is the unit vector of eigenvalue 0.

    Returns ``values [count]`` and ``vectors [n, count]``; raises ``ArithmeticError`` where they are not accurate.
    """
    n = symmetric.shape[0]
    if n <= LARGEST_EXACT or find_spec("numba") is None:
        with one_blas_thread():
            return solve_sparse(adjacency, symmetric, trivial, count)
    from dgn.spectral.solvers.lobpcg import solve_lobpcg

    try:
        with np.errstate(over="ignore", invalid="ignore"):  # of weights too far apart for float32 nothing converges
            return solve_lobpcg(adjacency, symmetric, trivial, count, start)
    except ArithmeticError:
        if n > LARGEST_RESCUE:
            raise
    with one_blas_thread():
        return solve_sparse(adjacency, symmetric, trivial, count)
