"""Directions of one connected graph without weights, in one call (Numba).

What :mod:`dgn.spectral.solvers.direct` does for many components, without the operations around its kernels, which take
longer than the kernels themselves where a graph is small.
"""

import numpy as np

from dgn.kernels.numba.eigenbasis import canonicalize
from dgn.kernels.numba.eigh import solve_tasks
from dgn.kernels.numba.jit import jit
from dgn.kernels.numba.sign import signs
from dgn.kernels.numba.simd_float64 import LANES
from dgn.kernels.numba.union_find import connected, sort_edges


@jit
def connected_directions(
    source, target, num_nodes, k, symmetric, batched_limit, noise, rounding_unit, repeated, pivot, undecided, nearly,
):  # fmt: skip
    """Potential [N, k], field [E, k] and gap [N, k], float32; empty ones where the graph is not connected, or where an
    eigenspace goes on beyond vector k + 1."""
    nothing = np.zeros((0, k), dtype=np.float32)
    component = connected(source, target, np.zeros(0), num_nodes)
    for node in range(num_nodes):
        if component[node] != 0:
            return nothing, nothing, nothing
    only, size, nodes = np.zeros(1, dtype=np.int64), np.full(1, num_nodes), np.arange(num_nodes)
    stride = np.full(1, num_nodes if num_nodes <= batched_limit else -(-num_nodes // LANES) * LANES)
    begin, entry, weight = sort_edges(source, target, np.zeros(0), component, nodes, stride)
    values, more = np.full((1, k + 1), np.nan), np.zeros(1)
    vectors, degree = np.zeros((num_nodes, k + 1)), np.zeros(num_nodes)
    solve_tasks(
        0, 1, only, np.arange(2), size, only, nodes, begin, entry, weight, noise, symmetric, batched_limit, values,
        vectors, degree, more,
    )  # fmt: skip
    if more[0] > 0:
        return nothing, nothing, nothing
    rounding = np.full(1, rounding_unit * 2 * (1.0 if symmetric else degree.max()))
    canonicalize(0, 1, only, size, only, nodes, values, rounding, repeated, pivot, vectors)
    sign, decided = np.empty((1, k + 1)), np.empty((1, k + 1), dtype=np.bool_)
    error = vector_rounding(values, rounding, repeated)
    signs(0, 1, size, only, nodes, vectors, degree, error, undecided, nearly, sign, decided)
    gaps = relative_gaps(values[0], num_nodes, rounding[0])
    gap = np.empty((num_nodes, k), dtype=np.float32)
    for q in range(k):
        if gaps[q] <= repeated or (q > 0 and gaps[q - 1] <= repeated):
            sign[0, q] = 1.0
        for node in range(num_nodes):
            vectors[node, q] *= sign[0, q]
            gap[node, q] = gaps[q]
    field = np.empty((len(source), k), dtype=np.float32)
    for edge in range(len(source)):
        for q in range(k):
            field[edge, q] = vectors[source[edge], q] - vectors[target[edge], q]
    return vectors[:, :k].astype(np.float32), field, gap


@jit
def vector_rounding(values, rounding, repeated):
    """As :func:`dgn.spectral.spectrum.vector_rounding`."""
    error = np.zeros_like(values)
    for row in range(values.shape[0]):
        for q in range(values.shape[1]):
            distance = values[row, q] - (values[row, q - 1] if q else 0.0)
            if q + 1 < values.shape[1]:
                above = values[row, q + 1] - values[row, q]
                distance = above if above < distance else distance  # NaN is not smaller
            if distance > max(rounding[row], repeated * values[row, q]):
                error[row, q] = rounding[row] / distance
    return error


@jit
def relative_gaps(values, size, rounding):
    """As :func:`dgn.spectral.degeneracy.relative_gap`, of one component."""
    gap = np.empty(len(values) - 1)
    for q in range(len(gap)):
        step = values[q + 1] - values[q]
        gap[q] = 0.0 if step <= rounding else 1 - values[q] / values[q + 1]
        if q + 2 == size:
            gap[q] = 1.0
        if gap[q] < 0.0:
            gap[q] = 0.0
    return gap
