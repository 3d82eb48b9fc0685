"""From the edges of small components to their lowest eigenvectors (Numba)."""

import numpy as np

from dgn.kernels.numba import eigh_batched as across
from dgn.kernels.numba import eigh_single as within
from dgn.kernels.numba.jit import compiled
from dgn.kernels.numba.simd_float64 import LANES, load, root, spread, store, where
from dgn.kernels.numba.simd_float64 import across as across_lanes
from dgn.kernels.numba.simd_float64 import vectors as room_for

_lowest_across, _room_across = across.lowest, across.room
_lowest_within, _room_within = within.lowest, within.room


@compiled
def solve_tasks(
    first, last, order, begin, size, start, nodes, edges, entry, weight, noise, symmetric, side_by_side,
    values, vectors, degree,
):  # fmt: skip
    """Tasks ``first`` to ``last - 1``: components of one size, eight at once up to ``side_by_side`` nodes."""
    if first == last:
        return
    count = values.shape[1]
    largest = size[order[begin[last] - 1]]
    wide = -(-largest // LANES)
    matrix = room_for(max(min(largest, side_by_side) ** 2, wide * wide * LANES))
    mine = room_for((count + 1) * largest)
    found = room_for(count + 3)
    work = room_for(max(_room_across(largest), _room_within(largest, count)))
    for task in range(first, last):
        n = size[order[begin[task]]]
        some = min(count, n - 1)
        group = order[begin[task] : begin[task + 1]]
        if n <= side_by_side:
            fill_across(n, group, edges, entry, weight, matrix)
            laplacian_across(n, matrix, symmetric, mine, work)
            for lane in range(len(group)):
                for a in range(n):
                    degree[nodes[start[group[lane]] + a]] = work[a * LANES + lane]
            _lowest_across(n, some, matrix, found, mine, work, noise)
            for lane in range(len(group)):
                write(n, some, group[lane], start, nodes, LANES, lane, n * LANES, mine, found, values, vectors)
        else:
            fill_within(n, group[0], edges, entry, weight, matrix)
            laplacian_within(n, matrix, symmetric, mine, work)
            for a in range(n):
                degree[nodes[start[group[0]] + a]] = work[a]
            _lowest_within(n, some, matrix, found, mine, work, noise)
            write(n, some, group[0], start, nodes, 1, 0, -(-n // LANES) * LANES, mine, found, values, vectors)


@compiled
def write(n, some, member, start, nodes, stride, lane, length, mine, found, values, vectors):
    """Copy the pairs of one component to where they belong."""
    for q in range(some):
        values[member, q] = found[q * stride + lane]
        for a in range(n):
            vectors[nodes[start[member] + a], q] = mine[(q + 1) * length + a * stride + lane]


@compiled
def fill_across(n, group, edges, entry, weight, matrix):
    """Sum the weights of edges into eight matrices; lanes without a component of their own repeat the first."""
    matrix[: n * n * LANES] = 0.0
    for lane in range(LANES):
        member = group[lane] if lane < len(group) else group[0]
        for edge in range(edges[member], edges[member + 1]):
            matrix[np.uint64(entry[edge]) * np.uint64(LANES) + np.uint64(lane)] += weight[edge] if len(weight) else 1.0


@compiled
def laplacian_across(n, matrix, symmetric, trivial, degree):
    """Turn the upper halves into Laplacians; ``trivial`` gets their vector of eigenvalue 0."""
    zero, one = spread(0.0), spread(1.0)
    for i in range(n):
        store(degree, i, zero)
    for i in range(n):
        for j in range(i + 1, n):
            there, back = load(matrix, i * n + j), load(matrix, j * n + i)
            entry = where(there < back, back, there)
            store(matrix, i * n + j, zero - entry)
            store(degree, i, load(degree, i) + entry)
            store(degree, j, load(degree, j) + entry)
        store(matrix, i * n + i, load(degree, i))
    square = zero
    for i in range(n):
        entry = root(load(degree, i)) if symmetric else one
        store(trivial, i, entry)
        square += entry * entry
    if symmetric:
        for i in range(n):
            for j in range(i, n):
                entry = load(matrix, i * n + j) / (load(trivial, i) * load(trivial, j))
                store(matrix, i * n + j, entry)
    scale = one / root(square)
    for i in range(n):
        store(trivial, i, load(trivial, i) * scale)


@compiled
def fill_within(n, member, edges, entry, weight, matrix):
    """Sum the weights of edges into one matrix, padded to whole vectors."""
    matrix[: (-(-n // LANES) * LANES) ** 2] = 0.0
    for edge in range(edges[member], edges[member + 1]):
        matrix[np.uint64(entry[edge])] += weight[edge] if len(weight) else 1.0


@compiled
def laplacian_within(n, matrix, symmetric, trivial, degree):
    """Turn the tiles on and above the diagonal into a Laplacian; ``trivial`` gets its vector of eigenvalue 0."""
    tiles = -(-n // LANES)
    symmetrize(tiles, matrix)
    for t in range(tiles):
        store(degree, t, spread(0.0))
    for i in range(n):
        total = load(matrix, i * tiles + i // LANES)
        for t in range(i // LANES + 1, tiles):
            entry = load(matrix, i * tiles + t)
            store(degree, t, load(degree, t) + entry)
            total += entry
        degree[i] += across_lanes(total)
    square = 0.0
    for i in range(tiles * LANES):
        trivial[i] = 0.0 if i >= n else np.sqrt(degree[i]) if symmetric else 1.0
        square += trivial[i] * trivial[i]
    for i in range(n):
        matrix[i * tiles * LANES + i] = -degree[i]
        for t in range(i // LANES, tiles):
            entry = spread(0.0) - load(matrix, i * tiles + t)
            store(matrix, i * tiles + t, entry / scale_of(trivial, i, t) if symmetric else entry)
    for i in range(n):
        trivial[i] /= np.sqrt(square)


@compiled
def scale_of(trivial, i, t):
    """The root of the degrees of node i and of eight others; 1 where there is none."""
    scale = spread(trivial[i]) * load(trivial, t)
    return where(spread(0.0) < scale, scale, spread(1.0))


@compiled
def symmetrize(tiles, matrix):
    """The larger of each entry and its mirror image, on and above the diagonal tiles; no self-loops."""
    width = np.uint64(tiles * LANES)
    for i in range(width):
        matrix[i * width + i] = 0.0
        above = i // np.uint64(LANES) * np.uint64(LANES) + np.uint64(LANES)
        for j in range(i + np.uint64(1), above):
            matrix[i * width + j] = matrix[j * width + i] = max(matrix[i * width + j], matrix[j * width + i])
    for tile in range(np.uint64(0), width, np.uint64(LANES)):  # by tiles, for the sake of the cache
        for j in range(tile + np.uint64(LANES), width):
            for i in range(tile, tile + np.uint64(LANES)):
                matrix[i * width + j] = max(matrix[i * width + j], matrix[j * width + i])
