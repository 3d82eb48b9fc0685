"""Canonical signs of the eigenvectors of many components (Numba); the rule is in :mod:`dgn.spectral.sign`."""

import numpy as np

from dgn.kernels.numba.jit import jit


@jit
def signs(first, last, size, start, nodes, vectors, degree, error, undecided, nearly, sign, decided):
    """Write ``sign`` and ``decided`` [C, k] of components ``first`` to ``last - 1``."""
    for component in range(first, last):
        members = nodes[start[component] : start[component] + size[component]]
        for q in range(vectors.shape[1]):
            sign[component, q] = _by_moments(members, q, vectors, degree, error[component, q], undecided)
            decided[component, q] = sign[component, q] != 0.0
            if not decided[component, q]:
                sign[component, q] = _by_largest(members, q, vectors, nearly)


@jit
def _by_moments(members, q, vectors, degree, error, undecided):
    """The sign of the first odd moment that does not vanish; 0 if all of them do."""
    for odd in (3, 1, 5):
        for power in range(4):
            total, magnitude, slope = 0.0, 0.0, 0.0
            for node in members:
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


@jit
def _by_largest(members, q, vectors, nearly):
    """The sign of the first entry that is largest in magnitude up to rounding; 1 for a vector of zeros."""
    largest = 0.0
    for node in members:
        largest = max(largest, abs(vectors[node, q]))
    for node in members:
        if abs(vectors[node, q]) > nearly * largest:
            return np.sign(vectors[node, q])
    return 1.0
