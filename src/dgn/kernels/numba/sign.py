"""The canonical sign of many eigenvectors of many components (Numba); the rule is in :mod:`dgn.spectral.sign`."""

import numpy as np

from dgn.kernels.numba.jit import compiled


@compiled
def signs(first, last, size, start, nodes, vectors, degree, error, undecided, nearly, sign, decided):
    """Components ``first`` to ``last - 1``: ``sign`` and ``decided`` [C, k]."""
    for member in range(first, last):
        mine = nodes[start[member] : start[member] + size[member]]
        for q in range(vectors.shape[1]):
            sign[member, q] = _by_moments(mine, q, vectors, degree, error[member, q], undecided)
            decided[member, q] = sign[member, q] != 0.0
            if not decided[member, q]:
                sign[member, q] = _by_largest(mine, q, vectors, nearly)


@compiled
def _by_moments(mine, q, vectors, degree, error, undecided):
    """The sign of the first odd moment that does not vanish; 0 if all of them do."""
    for odd in (3, 1, 5):
        for power in range(4):
            total, magnitude, slope = 0.0, 0.0, 0.0
            for node in mine:
                value = vectors[node, q]
                term, side = value, 1.0
                for _ in range(odd // 2):
                    term *= value * value
                    side *= value * value
                for _ in range(power):
                    term *= degree[node]
                    side *= degree[node]
                total += term
                magnitude += abs(term)
                slope += side * side
            if abs(total) > max(undecided * magnitude, odd * error * np.sqrt(slope)):
                return np.sign(total)
    return 0.0


@compiled
def _by_largest(mine, q, vectors, nearly):
    """The sign of the first entry that is largest in magnitude up to rounding; 1 for a vector of zeros."""
    largest = 0.0
    for node in mine:
        largest = max(largest, abs(vectors[node, q]))
    for node in mine:
        if abs(vectors[node, q]) > nearly * largest:
            return np.sign(vectors[node, q])
    return 1.0
