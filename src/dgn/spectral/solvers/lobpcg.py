r"""Eigenvectors of one large component: a block method preconditioned by an approximate Cholesky factor.

LOBPCG (Knyazev 2001): the lowest vectors X are replaced by the best ones in the space of X, of its preconditioned
residuals W, and of the last change P. The basis [trivial, X, P, W] is kept orthonormal (Hetmaniuk and Lehoucq 2006),
so that it survives repeated and clustered eigenvalues.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dgn.kernels.numba.lobpcg import Columns, Rows, all_columns, combine, inner, multiply, rows_of
from dgn.spectral.solvers.cholesky import Factor, approximate_cholesky, near_numbering, renumbered
from dgn.spectral.solvers.dense import check_lowest
from dgn.spectral.solvers.rayleigh_ritz import independent, rayleigh_ritz, root_inverse
from dgn.spectral.solvers.shift_invert import ACCURACY, RELATIVE_ACCURACY, ROUNDING

Array = NDArray[np.float64]

EQUAL_ACCURACY = 1e-5  # residual relative to the eigenvalue at which equal eigenvalues are equal to 1e-9 or so
GAP_ACCURACY = 1e-2  # residual of the last vector, relative to its gap: only the gap is needed
LANES = 4  # the block has at least one extra vector, and its size is a multiple of this SIMD width
LOCKED = 0.1  # fraction of the accuracy at which a vector is locked
ITERATIONS = 200


@dataclass(frozen=True)
class Problem:
    """A symmetric Laplacian of one component, its nodes numbered so that neighbours are near, and its preconditioner.

    ``trivial`` [n] is the unit vector of eigenvalue 0; ``scale`` [n, 1] is the same with largest entry 1, or None
    where it is constant.
    """

    matrix: Rows
    factor: Factor
    trivial: Array
    scale: Array | None
    norm: float

    def precondition(self, residual: Array, target: Columns) -> None:
        """Apply an approximate inverse of D - A, or of the symmetric Laplacian, which is scaled by roots of degrees."""
        if self.scale is None:
            self.factor.solve(residual, target.array, target.first)
        else:
            self.factor.solve(residual * self.scale, target.array, target.first)
            view = target.view()
            view *= self.scale

    def goals(self, values: Array, count: int, relative: float) -> Array:
        """The target residuals; the last of ``count`` vectors only needs an accurate gap."""
        goal = np.maximum(np.minimum(ACCURACY * self.norm, relative * values), ROUNDING * self.norm)
        if count > 1:
            goal[count - 1] = max(goal[count - 1], GAP_ACCURACY * (values[count - 1] - values[count - 2]))
        return goal


def solve_lobpcg(
    adjacency: csr_array, symmetric: csr_array, trivial: Array, count: int, start: Array | None = None
) -> tuple[Array, Array]:
    """The lowest non-trivial eigenpairs of the Laplacian ``symmetric`` of one connected component.

    ``trivial`` is the unit vector of eigenvalue 0; ``start`` [n, s] are start vectors, such as those of a
    similar graph. The result is bitwise identical on every run and for any number of threads.

    Returns ``values [count]`` ascending and ``vectors [n, count]``. All but the last pair have residuals below
    ``ACCURACY`` times the norm of the matrix and ``RELATIVE_ACCURACY`` times the eigenvalue, most often below
    ``EQUAL_ACCURACY`` times it, or, where that is less, below ``ROUNDING`` times the norm; the last is only as accurate
    as the gap before it needs. Raises ``ArithmeticError`` if that is not reached.
    """
    order = near_numbering(adjacency)
    factor = approximate_cholesky(renumbered(adjacency, order))
    unit = np.abs(trivial[order])
    scale = unit[:, None] / unit.max() if np.ptp(unit) > 0 else None
    norm = 2 * float(np.abs(symmetric.diagonal()).max())
    problem = Problem(rows_of(renumbered(symmetric, order)), factor, unit, scale, norm)
    size = (count // LANES + 1) * LANES
    basis = np.empty((len(order), 1 + 3 * size))
    basis[:, 0] = unit
    try:
        num_vectors = _start_block(problem, basis, size, None if start is None else start[order])
        values = _iterate(problem, basis, num_vectors, size, count)
    except np.linalg.LinAlgError as error:
        raise ArithmeticError(_failure(len(order), count, np.inf, 1)) from error
    vectors = np.empty((len(order), count))
    vectors[order] = basis[:, 1 : 1 + count]
    return values, vectors


def _start_block(problem: Problem, basis: Array, size: int, start: Array | None) -> int:
    """Write orthonormal vectors after the trivial one, of preconditioned noise and start vectors; return how many."""
    trivial, current = Columns(basis, 0, 1), Columns(basis, 1, size)
    noise = np.random.default_rng(0).standard_normal((len(basis), size))
    noise -= basis[:, :1] * inner(trivial, all_columns(noise))
    problem.precondition(noise, current)
    if start is not None:
        warm = np.ascontiguousarray(start[:, :size])
        current = Columns(basis, 1, size + warm.shape[1])
        basis[:, 1 + size : 1 + current.count] = warm
    block = current.view()
    block -= basis[:, :1] * inner(trivial, current)
    mixture = independent(inner(current, current))
    rank = mixture.shape[1]  # fewer where one eigenvalue is so small that its vector dominates all noise
    combine(current, mixture, Columns(basis, 1, rank))
    if rank < size:
        basis[:, 1 + rank : 1 + size] = noise[:, rank:]
    current = Columns(basis, 1, max(rank, size))
    block = current.view()
    for _ in range(2):  # twice, against rounding
        block -= basis[:, :1] * inner(trivial, current)
        combine(current, root_inverse(inner(current, current)), current)
    return current.count


def _iterate(problem: Problem, basis: Array, num_vectors: int, size: int, count: int) -> Array:
    """Improve the first vectors of the basis until ``count`` are accurate, and return their values.

    The basis is the trivial vector and ``num_vectors`` others, of which the best ``size`` become the current ones.
    """
    all_vectors, current = Columns(basis, 1, num_vectors), Columns(basis, 1, size)
    work = np.empty((len(basis), num_vectors))
    multiply(problem.matrix, all_vectors, np.zeros(num_vectors), work)
    projected = inner(all_vectors, all_columns(work))
    values, mixture = np.linalg.eigh((projected + projected.T) / 2)
    combine(all_vectors, mixture, all_vectors)
    projection, values, work = np.diag(values), values[:size], np.empty((len(basis), size))
    worst, steps = np.inf, 0
    for _ in range(ITERATIONS):
        steps += 1
        check_lowest(values[:1], problem.norm)
        multiply(problem.matrix, current, values, work)
        residual = np.sqrt(np.diagonal(inner(all_columns(work), all_columns(work))))
        worst = float((residual / problem.goals(values, count, RELATIVE_ACCURACY))[:count].max())
        goal = problem.goals(values, count, EQUAL_ACCURACY)
        if (residual <= goal)[:count].all():
            break
        active = np.flatnonzero(residual > LOCKED * goal)
        added = _add_residuals(problem, basis, len(projection), work[:, active] / residual[active])
        if added == 0:
            break
        values, projection = _improve(problem, basis, projection, added, active, work)
    if worst > 1:
        raise ArithmeticError(_failure(len(basis), count, worst, steps))
    combine(current, root_inverse(inner(current, current)), current)
    return values[:count]


def _add_residuals(problem: Problem, basis: Array, num_vectors: int, residual: Array) -> int:
    """Append preconditioned residuals, orthonormal to the first ``1 + num_vectors`` columns; return how many."""
    before, count = 1 + num_vectors, residual.shape[1]
    added_columns, all_vectors = Columns(basis, before, count), Columns(basis, 0, before + count)
    problem.precondition(residual, added_columns)
    gram = inner(all_vectors, added_columns)
    overlap, self_gram = gram[:before], gram[before:]
    mixture = independent(self_gram - overlap.T @ overlap, np.diagonal(self_gram))
    combine(all_vectors, np.concatenate([-overlap @ mixture, mixture]), Columns(basis, before, mixture.shape[1]))
    return int(mixture.shape[1])


def _improve(
    problem: Problem, basis: Array, projection: Array, added: int, active: NDArray[np.int64], work: Array
) -> tuple[Array, Array]:
    """The best vectors X and their change P in the space of all columns; the values and the projected matrix."""
    num_vectors, size = len(projection), work.shape[1]
    all_vectors, added_columns = Columns(basis, 1, num_vectors + added), Columns(basis, 1 + num_vectors, added)
    multiply(problem.matrix, added_columns, np.zeros(added), work)
    image = inner(all_vectors, Columns(work, 0, added))
    values, mixture, projected = rayleigh_ritz(projection, image, inner(all_vectors, added_columns), size, active)
    combine(all_vectors, mixture, Columns(basis, 1, mixture.shape[1]))
    return values, projected


def _failure(n: int, count: int, ratio: float, steps: int) -> str:
    return (
        f"directions: expected residuals below {ACCURACY} times the norm of the matrix and {RELATIVE_ACCURACY} times "
        f"the eigenvalue for a component of {n} nodes, got {ratio:.1e} times as much after {steps} iterations; "
        f"its eigenvalues around number {count} are too close together, or its weights too far apart: compute fewer "
        "directions, or drop the edges of negligible weight"
    )
