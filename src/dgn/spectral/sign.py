"""A canonical sign for eigenvectors: the same for every numbering of the nodes."""

import numpy as np
from numpy.typing import NDArray

UNDECIDED = 1e-8  # a moment this small, relative to the sum of the magnitudes of its terms, decides nothing


def canonical_sign(
    vectors: NDArray[np.float64],
    degree: NDArray[np.float64],
    component: NDArray[np.int64],
    num_components: int,
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    r"""Sign of each vector on each component, and whether the graph decides it. Both ``[components, k]``.

    The sign makes the first odd moment :math:`\sum_i d_i^a v_i^b` of a fixed list positive that does not vanish,
    where d is the degree. Every such moment flips with v and does not see the numbering of the nodes, so

    - ``canonical_sign(-v) == -canonical_sign(v)``, and
    - relabelling the nodes of a graph relabels ``sign * v``, wherever the sign is decided.

    Where every moment vanishes, almost always because a symmetry of the graph maps v to -v, no rule can choose: the
    second result is false, and the sign falls back to making the first entry of largest magnitude positive, which is
    reproducible but depends on the numbering.

    >>> path = np.array([[0.6], [-0.3], [-0.3]])  # not an eigenvector; any vector has a sign
    >>> sign, decided = canonical_sign(-path, np.ones(3), np.zeros(3, dtype=int), 1)
    >>> sign.tolist(), decided.tolist()
    ([[-1.0]], [[True]])
    """
    sign = np.zeros((num_components, vectors.shape[1]))
    for moment in _moments(vectors, degree):
        total = _sum(moment, component, num_components)
        magnitude = _sum(np.abs(moment), component, num_components)
        open_and_clear = (sign == 0) & (np.abs(total) > UNDECIDED * magnitude)
        sign = np.where(open_and_clear, np.sign(total), sign)
    decided = sign != 0
    return np.where(decided, sign, _sign_of_largest(vectors, component, num_components)), decided


def _moments(vectors: NDArray[np.float64], degree: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    weight = degree[:, None]
    return [weight**power * vectors**odd for odd in (3, 1, 5) for power in (0, 1, 2, 3)]


def _sum(values: NDArray[np.float64], component: NDArray[np.int64], num_components: int) -> NDArray[np.float64]:
    total = np.zeros((num_components, values.shape[1]))
    np.add.at(total, component, values)
    return total


def _sign_of_largest(
    vectors: NDArray[np.float64], component: NDArray[np.int64], num_components: int
) -> NDArray[np.float64]:
    """Sign of the first entry that is largest in magnitude up to rounding; 1 for a vector of zeros."""
    largest = np.zeros((num_components, vectors.shape[1]))
    np.maximum.at(largest, component, np.abs(vectors))
    node, column = np.nonzero((np.abs(vectors) > (1 - 1e-6) * largest[component]) & (largest[component] > 0))
    sign = np.ones_like(largest)
    # Reversed, so that the first of several candidates is written last and stays.
    sign[component[node[::-1]], column[::-1]] = np.sign(vectors[node[::-1], column[::-1]])
    return sign
