"""A canonical sign for eigenvectors, independent of the numbering of the nodes."""

from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

UNDECIDED = 1e-8  # a moment this small, relative to the sum of the magnitudes of its terms, counts as 0
NEARLY = 1 - 1e-6  # entries this close to the largest count as largest


def canonical_sign(
    vectors: NDArray[np.float64],
    degree: NDArray[np.float64],
    component: NDArray[np.int64],
    num_components: int,
    error: NDArray[np.float64] | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    r"""The sign of each vector on each component, and whether the graph determines it. Both ``[components, k]``.

    The sign makes the first odd moment :math:`\sum_i d_i^a v_i^b` of a fixed list positive that does not vanish,
    where d is the degree. Every such moment flips with v and does not depend on the numbering of the nodes, so

    - ``canonical_sign(-v) == -canonical_sign(v)``, and
    - relabelling the nodes of a graph relabels ``sign * v``, wherever the sign is decided.

    ``error [components, k]`` bounds the distance of each vector from the true one (default 0): a moment whose sign
    such an error can change, :math:`b \|error\| (\sum_i d_i^{2a} v_i^{2b-2})^{1/2}` at most, counts as 0 too.

    Where every moment vanishes, almost always because a symmetry of the graph maps v to -v, the sign is arbitrary: the
    second result is false, and the sign falls back to making the first entry of largest magnitude positive, which is
    reproducible but depends on the numbering.

    >>> path = np.array([[0.6], [-0.3], [-0.3]])  # not an eigenvector; any vector has a sign
    >>> sign, decided = canonical_sign(-path, np.ones(3), np.zeros(3, dtype=int), 1)
    >>> sign.tolist(), decided.tolist()
    ([[-1.0]], [[True]])
    """
    sign = np.zeros((num_components, vectors.shape[1]))
    for odd, power in product((3, 1, 5), (0, 1, 2, 3)):
        open_nodes = np.flatnonzero((sign == 0).any(axis=1)[component])
        if len(open_nodes) == 0:
            break
        moment = _moment(vectors[open_nodes], degree[open_nodes], odd, power)
        membership = _membership(component[open_nodes], num_components)
        total, doubt = membership @ moment, UNDECIDED * (membership @ np.abs(moment))
        if error is not None and error.any():
            slope = _moment(vectors[open_nodes], degree[open_nodes], odd - 1, power)
            doubt = np.maximum(doubt, odd * error * np.sqrt(membership @ slope**2))
        clear = (sign == 0) & (np.abs(total) > doubt)
        sign = np.where(clear, np.sign(total), sign)
    decided = sign != 0
    return np.where(decided, sign, _sign_of_largest(vectors, component, num_components)), decided


def _moment(
    vectors: NDArray[np.float64], degree: NDArray[np.float64], exponent: int, power: int
) -> NDArray[np.float64]:
    """The terms of one moment; products, since powers are slow."""
    terms = vectors.copy() if exponent % 2 else np.ones_like(vectors)
    for _ in range(exponent // 2):
        terms *= vectors * vectors
    for _ in range(power):
        terms *= degree[:, None]
    return terms


def _membership(component: NDArray[np.int64], num_components: int) -> csr_array:
    """The matrix that sums node values over components."""
    entries = component, np.arange(len(component))
    return coo_array((np.ones(len(component)), entries), shape=(num_components, len(component))).tocsr()


def _sign_of_largest(
    vectors: NDArray[np.float64], component: NDArray[np.int64], num_components: int
) -> NDArray[np.float64]:
    """Sign of the first entry that is largest in magnitude up to rounding; 1 for a vector of zeros."""
    largest = np.zeros((num_components, vectors.shape[1]))
    np.maximum.at(largest, component, np.abs(vectors))
    node, column = np.nonzero((np.abs(vectors) > NEARLY * largest[component]) & (largest[component] > 0))
    sign = np.ones_like(largest)
    # Reversed, so that the first of several candidates is written last.
    sign[component[node[::-1]], column[::-1]] = np.sign(vectors[node[::-1], column[::-1]])
    return sign
