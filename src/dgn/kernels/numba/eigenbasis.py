"""Canonical bases of the repeated eigenspaces of many components (Numba); the rule is in
:func:`dgn.spectral.degeneracy.canonical_basis`."""

import numpy as np

from dgn.kernels.numba.jit import jit


@jit
def canonicalize(first, last, chosen, size, start, nodes, values, rounding, repeated, pivot_ratio, vectors):
    """Replace the basis of each repeated eigenspace of components ``chosen[first]`` to ``chosen[last - 1]``, in place.

    Eigenvalues that differ by at most ``rounding`` [C], or by ``repeated`` relative to the larger, are equal.
    """
    for index in range(first, last):
        component = chosen[index]
        count = min(values.shape[1], size[component] - 1)
        begin = 0
        for end in range(1, count + 1):
            if end < count:
                value, step = values[component, end], values[component, end] - values[component, end - 1]
                if step <= max(rounding[component], repeated * value):
                    continue
            if end - begin > 1:
                members = nodes[start[component] : start[component] + size[component]]
                _replace_basis(members, begin, end, pivot_ratio, vectors)
            begin = end


@jit
def _replace_basis(members, begin, end, pivot_ratio, vectors):
    """Pivoted Cholesky factorisation of the projector onto columns ``begin`` to ``end - 1``, written to them."""
    n, m = len(members), end - begin
    rest = np.empty((n, m))
    for a in range(n):
        for c in range(m):
            rest[a, c] = vectors[members[a], begin + c]
    square, mixture = np.empty(n), np.empty(m)
    for column in range(begin, end):
        largest = 0.0
        for a in range(n):
            square[a] = 0.0
            for c in range(m):
                square[a] += rest[a, c] * rest[a, c]
            largest = max(largest, square[a])
        pivot = 0
        while square[pivot] < pivot_ratio * largest:
            pivot += 1
        for c in range(m):
            mixture[c] = rest[pivot, c] / np.sqrt(square[pivot])
        for a in range(n):
            entry = 0.0
            for c in range(m):
                entry += rest[a, c] * mixture[c]
            for c in range(m):
                rest[a, c] -= entry * mixture[c]
            vectors[members[a], column] = entry
