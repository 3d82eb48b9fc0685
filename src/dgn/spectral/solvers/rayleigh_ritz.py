"""Dense linear algebra of block eigensolvers: Rayleigh-Ritz in a growing basis."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DEPENDENT = 1e-12  # squared length, relative to that before projection, below which a vector is rounding


def root_inverse(gram: Array) -> Array:
    r"""The symmetric :math:`G^{-1/2}` that makes vectors with these inner products orthonormal. [m, m]

    >>> root_inverse(np.array([[4.0, 0.0], [0.0, 1.0]])).tolist()
    [[0.5, 0.0], [0.0, 1.0]]
    """
    length = np.sqrt(np.diagonal(gram))
    values, vectors = np.linalg.eigh(gram / np.outer(length, length))
    return np.asarray((vectors / np.sqrt(values)) @ vectors.T / length[:, None])


def independent(gram: Array, before: Array | None = None) -> Array:
    """The coefficients that make vectors with these inner products orthonormal; dependent vectors are dropped.

    ``before`` [m] are their squared lengths before a projection was subtracted; a vector of which only rounding is
    left is dropped, too. [m, m] -> [m, rank]

    >>> independent(np.array([[4.0, 0.0], [0.0, 0.0]])).shape
    (2, 1)
    """
    square = np.diagonal(gram)
    nonzero = square > (0.0 if before is None else DEPENDENT * before)
    length = np.sqrt(square[nonzero])
    values, vectors = np.linalg.eigh(gram[np.ix_(nonzero, nonzero)] / np.outer(length, length))
    independent_part = values > 1e2 * DEPENDENT
    mixture = np.zeros((len(gram), int(independent_part.sum())))
    mixture[nonzero] = vectors[:, independent_part] / np.sqrt(values[independent_part]) / length[:, None]
    return mixture


def rayleigh_ritz(
    projection: Array, image: Array, overlap: Array, size: int, active: NDArray[np.int64]
) -> tuple[Array, Array, Array]:
    """The lowest ``size`` Ritz vectors in a space, and their change.

    The space has an orthonormal part, of which ``projection`` [h, h] is the projected matrix and whose first ``size``
    vectors are the current ones, and a new part of a vectors, nearly orthonormal to it: ``image`` [h + a, a] and
    ``overlap`` [h + a, a] are the inner products of all vectors with the matrix times the new ones, and with the new
    ones. ``active`` are the vectors whose change is wanted.

    Returns ``values`` [size], the ``mixture`` [h + a, size + p] of all vectors that gives the new ones and an
    orthonormal basis of their change, and the projected matrix of those.
    """
    num_vectors, total = len(projection), len(image)
    matrix, gram = np.zeros((total, total)), np.eye(total)
    matrix[:num_vectors, :num_vectors] = projection
    matrix[:, num_vectors:], matrix[num_vectors:, :num_vectors] = image, image[:num_vectors].T
    gram[:, num_vectors:], gram[num_vectors:, :num_vectors] = overlap, overlap[:num_vectors].T
    to_orthonormal = np.linalg.inv(np.linalg.cholesky((gram + gram.T) / 2)).T
    matrix = to_orthonormal.T @ (matrix + matrix.T) @ to_orthonormal / 2
    values, vectors = np.linalg.eigh(matrix)
    lowest = vectors[:, :size]
    change = lowest[:, active]
    change[:size] = 0.0
    for _ in range(2):
        change = change - lowest @ (lowest.T @ change)
        change = change @ independent(change.T @ change)
    both = np.concatenate([lowest, change], axis=1)
    projected = both.T @ matrix @ both
    projected[:size, :size] = np.diag(values[:size])
    return values[:size], to_orthonormal @ both, projected
