"""Eigenvectors of one large component: block iteration on an exact factorisation."""

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, lobpcg, splu

ACCURACY = 1e-8  # largest residual, relative to the norm of the matrix: what the field needs
RELATIVE_ACCURACY = 1e-3  # largest residual, relative to the eigenvalue
GUARD = 4  # extra vectors in the block: they speed up convergence and catch repeated eigenvalues


def solve_sparse(
    adjacency: csr_array, symmetric: csr_array, trivial: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lowest non-trivial eigenpairs of the Laplacian ``symmetric`` of one connected component.

    LOBPCG, a block method, so that repeated eigenvalues are found as often as they occur. Its preconditioner is the
    exact inverse of D - A on the complement of the constant vector, from a sparse LU factorisation with one node
    grounded. Start vectors are fixed, so the result is reproducible. ``trivial`` is the unit vector of eigenvalue 0.

    Returns ``values [count]`` ascending and ``vectors [n, count]``, with residuals below ``ACCURACY`` times the norm
    of the matrix and ``RELATIVE_ACCURACY`` times the eigenvalue; raises ``ArithmeticError`` if that is not reached.
    """
    n = symmetric.shape[0]
    block = min(count + GUARD + count // 2, n // 5)
    start = np.random.default_rng(0).standard_normal((n, block))
    scale = trivial / np.abs(trivial).max()  # 1 for D - A, proportional to the root of the degree for the other two
    solve = _grounded_inverse(adjacency)

    def precondition(residual: NDArray[np.float64]) -> NDArray[np.float64]:
        shape = scale[:, None] if residual.ndim == 2 else scale
        return np.asarray(solve(residual * shape) * shape)

    norm = 2 * float(np.abs(symmetric.diagonal()).max())
    with warnings.catch_warnings():
        # The residuals are checked below; lobpcg would warn about the guard vectors, which need not converge.
        warnings.simplefilter("ignore", UserWarning)
        values, vectors = lobpcg(
            symmetric,
            start,
            M=LinearOperator((n, n), matvec=precondition, matmat=precondition, dtype=np.float64),
            Y=trivial[:, None],
            tol=1e-13 * norm,
            maxiter=60,
            largest=False,
        )
    order = values.argsort()[:count]
    return _checked(symmetric, norm, values[order], vectors[:, order])


def _checked(
    symmetric: csr_array, norm: float, values: NDArray[np.float64], vectors: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    residual = np.linalg.norm(symmetric @ vectors - vectors * values, axis=0)
    bound = np.minimum(ACCURACY * norm, RELATIVE_ACCURACY * values)
    if not (residual <= bound).all():
        worst = int((residual / bound).argmax())
        raise ArithmeticError(
            f"directions: expected residuals below {bound[worst]:.1e} for eigenvector {worst + 1} of a component of "
            f"{symmetric.shape[0]} nodes, got {residual[worst]:.1e}; ask for another k, or check that the edge "
            "weights do not span more than ten orders of magnitude"
        )
    return values, vectors


def _grounded_inverse(adjacency: csr_array):  # type: ignore[no-untyped-def]
    """The inverse of D - A on vectors that sum to 0: solve with the busiest node held at 0, then centre."""
    degree = adjacency.sum(axis=1)
    ground = int(degree.argmax())
    free = np.delete(np.arange(len(degree)), ground)
    grounded = csc_array((diags_array(degree) - adjacency).tocsc()[:, free][free, :])
    factor = splu(grounded, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})

    def solve(right: NDArray[np.float64]) -> NDArray[np.float64]:
        solution = np.zeros_like(right)
        centred = right - right.mean(axis=0)
        solution[free] = factor.solve(centred[free])
        return np.asarray(solution - solution.mean(axis=0))

    return solve
