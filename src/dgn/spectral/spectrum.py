"""The lowest eigenpairs of all components of a graph."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from dgn.spectral.degeneracy import REPEATED

ROUNDING = 16 * np.finfo(np.float64).eps  # of a computed eigenvalue, relative to the norm of its matrix


class Spectrum(NamedTuple):
    """Eigenvalues and vectors, NaN and 0 where there are none, before their canonical sign is applied.

    ``component`` [N], ``sizes`` [C], ``values`` [C, m] ascending and their ``rounding`` [C], ``vectors`` [N, m],
    ``sign`` and ``sign_is_canonical`` [C, m].
    """

    component: NDArray[np.int64]
    sizes: NDArray[np.int64]
    values: NDArray[np.float64]
    rounding: NDArray[np.float64]
    vectors: NDArray[np.float64]
    sign: NDArray[np.float64]
    sign_is_canonical: NDArray[np.bool_]


def unit_scale(weight: NDArray[np.float64], owner: NDArray[np.int64], num_components: int) -> NDArray[np.float64]:
    """The power of two next to the largest weight of each component, [C]; 1 where there is none.

    Solvers square the weights. Dividing by a power of two is exact, and keeps squares from overflow and underflow.
    ``owner`` [E] is the component of each edge.

    >>> unit_scale(np.array([3e-200, 1.0]), np.array([0, 2]), 3).tolist() == [2.0**-663, 1.0, 1.0]
    True
    """
    largest = np.zeros(num_components)
    np.maximum.at(largest, owner, weight)
    return np.asarray(np.ldexp(1.0, np.frexp(np.where(largest > 0, largest, 1.0))[1] - 1))


def divide_by_scale(adjacency: csr_array, component: NDArray[np.int64], num_components: int) -> NDArray[np.float64]:
    """Divide the weights of each component by its :func:`unit_scale`, in place; returns the scales, [C]."""
    owner = np.repeat(component, np.diff(adjacency.indptr))
    scale = unit_scale(adjacency.data, owner, num_components)
    adjacency.data /= scale[owner]
    return scale


def scale_by_degree(
    vectors: NDArray[np.float64],
    degree: NDArray[np.float64],
    component: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> NDArray[np.float64]:
    r"""Turn eigenvectors of the symmetric Laplacian into those of :math:`D^{-1} L`, in place.

    :math:`v \mapsto D^{-1/2} v`, times the root of the mean degree of the component; a node without edges keeps its 0.
    Returns the largest factor of each component, [C, 1].
    """
    mean_degree = np.bincount(component, weights=degree) / np.maximum(sizes, 1)
    connected = degree > 0
    factor = np.sqrt(mean_degree[component] / np.where(connected, degree, 1))
    vectors[connected] *= factor[connected, None]
    largest = np.zeros((len(sizes), 1))
    np.maximum.at(largest[:, 0], component, factor)
    return largest


def rounding_of(
    degree: NDArray[np.float64], component: NDArray[np.int64], num_components: int, normalized: bool
) -> NDArray[np.float64]:
    r"""A bound on the rounding error of the eigenvalues of each component, [C]: a few :math:`\varepsilon \, \|L\|`.

    The norm is at most twice the largest degree, or 2 where the Laplacian is normalised.
    """
    largest = np.full(num_components, 1.0 if normalized else 0.0)
    if not normalized:
        np.maximum.at(largest, component, degree)
    return ROUNDING * 2 * largest


def vector_rounding(values: NDArray[np.float64], rounding: NDArray[np.float64]) -> NDArray[np.float64]:
    r"""A bound on the rounding error of directly solved eigenvectors, [C, m], towards those of the next eigenvalues.

    :math:`\varepsilon \, \|L\| / \min_{l \ne k} |\lambda_l - \lambda_k|`; 0 where an eigenvalue is repeated or
    does not exist. The eigenvalue after the last one of a row is ignored.
    """
    distance = values.copy()  # to the eigenvalue below
    distance[:, 1:] -= values[:, :-1]
    np.fmin(distance[:, :-1], distance[:, 1:], out=distance[:, :-1])  # to that above, if it is nearer
    apart = distance > np.maximum(rounding[:, None], REPEATED * values)
    return np.where(apart, rounding[:, None] / np.where(apart, distance, 1.0), 0.0)


def vector_errors(
    symmetric: csr_array, values: NDArray[np.float64], vectors: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""A bound on the error of the lowest Ritz vectors, all but the last; 1 at most.

    .. math::
        \frac{r_k}{\lambda_m - \lambda_k} \Big(1 + \frac{\max_{l < m} r_l}{\min_{l \ne k} |\lambda_l - \lambda_k|}\Big),
        \qquad r_k = \|L v_k - \lambda_k v_k\|

    to second order: residuals are orthogonal to all m vectors, so that to first order these mix only with higher
    eigenvectors.

    Shapes:
        ``values`` [m] ascending, m > 1, ``vectors`` [n, m]; returns [m - 1].

    >>> path = np.array([[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]])
    >>> vectors = np.array([[1.0, 1.0], [0.0, -2.0], [-1.0, 1.0]]) / np.sqrt([2.0, 6.0])
    >>> vector_errors(csr_array(path), np.array([1.0, 3.0]), vectors).round(6).tolist()
    [0.0]
    """
    residual = np.linalg.norm(symmetric @ vectors - vectors * values, axis=0)[:-1]
    between = np.diff(values)
    apart = np.minimum(between, np.append(np.inf, between[:-1]))
    bound = residual * (apart + residual.max())
    limit = (values[-1] - values[:-1]) * apart
    return np.asarray(np.where(bound < limit, bound / np.where(limit > 0, limit, 1.0), 1.0))


def difference_errors(
    adjacency: csr_array, symmetric: csr_array, values: NDArray[np.float64], vectors: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""The error of the differences of the lowest Ritz vectors along an edge, in the mean; all but the last.

    .. math:: \frac{\sqrt{\lambda_m}}{\lambda_m - \lambda_k} \, r_k \, W^{-1/2}, \qquad r_k = \|L v_k - \lambda_k v_k\|

    with W the sum of the weights of all edges. It bounds the energy :math:`\sum_{ij} w_{ij} (e_i - e_j)^2 = e^\top L e`
    of an error e in higher eigenvectors, of which each edge has its share; that of a normalised Laplacian is the energy
    of :math:`D^{-1/2} e`. A difference of eigenvalues below 1 % of :math:`\lambda_m` counts as that: residuals are
    orthogonal to all m vectors, the error is in those beyond.

    Shapes:
        ``values`` [m] ascending, m > 1, ``vectors`` [n, m]; returns [m - 1].
    """
    residual = np.linalg.norm(symmetric @ vectors - vectors * values, axis=0)[:-1]
    distance = np.maximum(values[-1] - values[:-1], 0.01 * values[-1])
    return np.asarray(np.sqrt(values[-1] / (adjacency.sum() / 2)) * residual / distance)


def silence(
    symmetric: csr_array, values: NDArray[np.float64], vectors: NDArray[np.float64], noise: NDArray[np.float64]
) -> None:
    r"""Set entries to 0, in place, where the true field vanishes but for the error of an iterative solver.

    An eigenvector is 0 where its field is: :math:`\lambda \phi_i = (L \phi)_i = 0`. So nodes are set to 0 that,
    like all of their neighbours, have entries of at most ``noise`` [n, m], and those neighbours. A vector is left as it
    is if its residual would grow. ``values`` [m], ``vectors`` [n, m].
    """
    neighbours = csr_array((np.ones(symmetric.nnz), symmetric.indices, symmetric.indptr), symmetric.shape)
    for k in range(noise.shape[1]):
        vector = vectors[:, k]
        near = np.abs(vector) <= noise[:, k]
        quiet = near & (neighbours @ (~near).astype(float) == 0)
        if not quiet.any():
            continue
        silent = np.where(neighbours @ quiet.astype(float) > 0, 0.0, vector)
        before, after = (np.linalg.norm(symmetric @ one - values[k] * one) for one in (vector, silent))
        if after <= before:
            vectors[:, k] = silent
