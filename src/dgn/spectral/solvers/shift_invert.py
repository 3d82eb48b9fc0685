"""Eigenvectors of one large component: block Krylov iteration on an exact factorisation."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array, eye_array
from scipy.sparse.linalg import splu

from dgn.spectral.solvers.dense import check_lowest, orthonormal_to

Array = NDArray[np.float64]

ACCURACY = 1e-8  # largest residual, relative to the norm of the matrix
RELATIVE_ACCURACY = 1e-3  # largest residual, relative to the eigenvalue
ROUNDING = 1e-13  # residual, relative to the norm of the matrix, that cannot be improved
GUARD = 4  # extra vectors in the block: they speed up convergence and catch repeated eigenvalues
STEPS = 8  # blocks in the Krylov space before it is restarted
RESTARTS = 40
PATIENCE = 8  # restarts after which the shift is moved closer to the lowest eigenvalue
LARGEST_FALLBACK = 4000  # nodes up to which a dense solve takes over where the iteration does not converge


def solve_shift_invert(adjacency: csr_array, symmetric: csr_array, trivial: Array, count: int) -> tuple[Array, Array]:
    """The lowest non-trivial eigenpairs of the Laplacian ``symmetric`` of one connected component.

    A restarted block Krylov iteration on the exact inverse, from a sparse factorisation of D - A with one node
    grounded. A block method finds repeated eigenvalues as often as they occur; start vectors are fixed, so the result
    is reproducible. Where many eigenvalues cluster far from 0, as around a hub, a shift near the lowest one separates
    them. ``trivial`` is the unit vector of eigenvalue 0.

    Returns ``values [count]`` ascending and ``vectors [n, count]``, with residuals below ``ACCURACY`` times the norm
    of the matrix and ``RELATIVE_ACCURACY`` times the eigenvalue; raises ``ArithmeticError`` if that is not reached.
    """
    n = symmetric.shape[0]
    norm = 2 * float(np.abs(symmetric.diagonal()).max())
    inverse = _inverse(adjacency, trivial)
    block = np.random.default_rng(0).standard_normal((n, count + GUARD + count // 2))
    best = worst = np.inf
    for restart in range(RESTARTS):
        values, block = _rayleigh_ritz(symmetric, _krylov_space(inverse, block, trivial), block.shape[1])
        check_lowest(values[:1], norm)
        residual = _residual(symmetric, values[:count], block[:, :count])
        worst = float((residual / np.minimum(ACCURACY * norm, RELATIVE_ACCURACY * values[:count])).max())
        if (residual <= ROUNDING * norm).all() or (worst <= 1 and worst > best / 2):
            return values[:count], block[:, :count]
        best = min(best, worst)
        if restart % PATIENCE == PATIENCE - 1:
            inverse = _inverse_near(symmetric, values[0] - 2 * residual[0] - ROUNDING * norm)
    if worst <= 1:
        return values[:count], block[:, :count]
    if n <= LARGEST_FALLBACK:
        all_values, vectors = np.linalg.eigh(symmetric.toarray())
        check_lowest(all_values[1:2], norm)
        return all_values[1 : count + 1], orthonormal_to(trivial[None], vectors[None, :, 1 : count + 1])[0]
    raise ArithmeticError(
        f"directions: expected residuals below {ACCURACY} times the norm of the matrix and {RELATIVE_ACCURACY} times "
        f"the eigenvalue for a component of {n} nodes, got {worst:.1e} times as much after {RESTARTS} restarts; its "
        f"eigenvalues around number {count} are too close together, or its weights too far apart: compute fewer "
        "directions, or drop the edges of negligible weight"
    )


def _krylov_space(inverse: Callable[[Array], Array], block: Array, trivial: Array) -> Array:
    """An orthonormal basis of the block and its images under powers of the inverse, orthogonal to ``trivial``."""
    basis = trivial[:, None]
    power = block
    for _ in range(STEPS):
        power = _orthonormal_part(power, basis)
        basis = np.concatenate([basis, power], axis=1)
        if power.shape[1] == 0 or basis.shape[1] + power.shape[1] > len(block):
            break  # no new vectors, or the space is exhausted
        power = inverse(power)
    return basis[:, 1:]


def _orthonormal_part(block: Array, basis: Array) -> Array:
    """An orthonormal basis of the part of ``block`` outside the span of ``basis``; rounding is dropped."""
    block = block / np.linalg.norm(block, axis=0)
    for _ in range(2):  # twice, against rounding
        block = block - basis @ (basis.T @ block)
        left, size, _ = np.linalg.svd(block, full_matrices=False)
        block = left[:, size > 1e-10]
    return block


def _rayleigh_ritz(symmetric: csr_array, basis: Array, count: int) -> tuple[Array, Array]:
    """The Ritz approximations of the lowest eigenpairs in the span of a basis."""
    projected = basis.T @ (symmetric @ basis)
    values, mixture = np.linalg.eigh((projected + projected.T) / 2)
    return values[:count], basis @ mixture[:, :count]


def _residual(symmetric: csr_array, values: Array, vectors: Array) -> Array:
    return np.asarray(np.linalg.norm(symmetric @ vectors - vectors * values, axis=0))


def _inverse_near(symmetric: csr_array, shift: float) -> Callable[[Array], Array]:
    """The inverse of the Laplacian less a shift below its lowest non-trivial eigenvalue."""
    shifted = csc_array(symmetric - shift * eye_array(symmetric.shape[0]))
    factor = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.01, options={"SymmetricMode": True})
    return lambda right: np.asarray(factor.solve(right))


def _inverse(adjacency: csr_array, trivial: Array) -> Callable[[Array], Array]:
    """The inverse of the Laplacian on the complement of ``trivial``.

    For D - A: solve with the node of largest degree grounded; the difference to the inverse is a constant. The
    symmetric Laplacian differs by the roots of the degrees on both sides, to which its trivial vector is proportional.
    """
    degree = np.asarray(adjacency.sum(axis=1))
    ground = int(degree.argmax())
    free = np.delete(np.arange(len(degree)), ground)
    grounded = csc_array((diags_array(degree) - adjacency).tocsc()[:, free][free, :])
    factor = splu(grounded, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    scale = trivial[:, None] / np.abs(trivial).max()

    def solve(right: Array) -> Array:
        solution = np.zeros_like(right)
        solution[free] = factor.solve((right * scale)[free])
        return np.asarray(solution * scale)

    return solve
