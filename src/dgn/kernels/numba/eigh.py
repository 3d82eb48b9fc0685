"""Lowest eigenpairs of the Laplacians of small components, from their edges (Numba)."""

import numpy as np

from dgn.kernels.numba import eigh_batched, eigh_single
from dgn.kernels.numba.jit import jit
from dgn.kernels.numba.simd_float64 import LANES, aligned_zeros, load, splat, sqrt, store, sum_lanes, where

_lowest_batched, _batched_workspace = eigh_batched.lowest, eigh_batched.workspace_size
_lowest_single, _single_workspace = eigh_single.lowest, eigh_single.workspace_size


@jit
def solve_tasks(
    first, last, order, begin, size, start, nodes, edges, entry, weight, noise, symmetric, batched_limit,
    values, vectors, degree, more,
):  # fmt: skip
    """Tasks ``first`` to ``last - 1``: components of one size, eight at once up to ``batched_limit`` nodes.

    ``more`` [C] gets the number of further eigenvalues that equal the last.
    """
    if first == last:
        return
    count = values.shape[1]
    largest = size[order[begin[last] - 1]]
    tiles = -(-largest // LANES)
    matrix = aligned_zeros(max(min(largest, batched_limit) ** 2, tiles * tiles * LANES))
    eigenvectors = aligned_zeros((count + 1) * largest)
    eigenvalues = aligned_zeros(count + 3)
    work = aligned_zeros(max(_batched_workspace(largest), _single_workspace(largest, count)))
    for task in range(first, last):
        n = size[order[begin[task]]]
        num_pairs = min(count, n - 1)
        group = order[begin[task] : begin[task + 1]]
        if n <= batched_limit:
            fill_batched(n, group, edges, entry, weight, matrix)
            laplacian_batched(n, matrix, symmetric, eigenvectors, work)
            for lane in range(len(group)):
                for a in range(n):
                    degree[nodes[start[group[lane]] + a]] = work[a * LANES + lane]
            _lowest_batched(n, num_pairs, matrix, eigenvalues, eigenvectors, work, noise)
            for lane in range(len(group)):
                write(
                    n, num_pairs, group[lane], start, nodes, LANES, lane, n * LANES, eigenvectors, eigenvalues, values,
                    vectors, more,
                )  # fmt: skip
        else:
            fill_single(n, group[0], edges, entry, weight, matrix)
            laplacian_single(n, matrix, symmetric, eigenvectors, work)
            for a in range(n):
                degree[nodes[start[group[0]] + a]] = work[a]
            _lowest_single(n, num_pairs, matrix, eigenvalues, eigenvectors, work, noise)
            length = -(-n // LANES) * LANES
            write(n, num_pairs, group[0], start, nodes, 1, 0, length, eigenvectors, eigenvalues, values, vectors, more)


@jit
def write(
    n, num_pairs, component, start, nodes, stride, lane, length, eigenvectors, eigenvalues, values, vectors, more
):  # fmt: skip
    """Copy the eigenpairs of one component to the outputs."""
    more[component] = eigenvalues[num_pairs * stride + lane]
    for q in range(num_pairs):
        values[component, q] = eigenvalues[q * stride + lane]
        for a in range(n):
            vectors[nodes[start[component] + a], q] = eigenvectors[(q + 1) * length + a * stride + lane]


@jit
def fill_batched(n, group, edges, entry, weight, matrix):
    """Sum the weights of edges into eight matrices; unused lanes repeat the first."""
    matrix[: n * n * LANES] = 0.0
    for lane in range(LANES):
        component = group[lane] if lane < len(group) else group[0]
        for edge in range(edges[component], edges[component + 1]):
            matrix[np.uint64(entry[edge]) * np.uint64(LANES) + np.uint64(lane)] += weight[edge] if len(weight) else 1.0


@jit
def laplacian_batched(n, matrix, symmetric, trivial, degree):
    """Turn the upper triangles into Laplacians; ``trivial`` gets their unit eigenvectors of eigenvalue 0."""
    zero, one = splat(0.0), splat(1.0)
    for i in range(n):
        store(degree, i, zero)
    for i in range(n):
        for j in range(i + 1, n):
            upper, lower = load(matrix, i * n + j), load(matrix, j * n + i)
            entry = where(upper < lower, lower, upper)
            store(matrix, i * n + j, zero - entry)
            store(degree, i, load(degree, i) + entry)
            store(degree, j, load(degree, j) + entry)
        store(matrix, i * n + i, load(degree, i))
    square = zero
    for i in range(n):
        entry = sqrt(load(degree, i)) if symmetric else one
        store(trivial, i, entry)
        square += entry * entry
    if symmetric:
        for i in range(n):
            for j in range(i, n):
                entry = load(matrix, i * n + j) / (load(trivial, i) * load(trivial, j))
                store(matrix, i * n + j, entry)
    scale = one / sqrt(square)
    for i in range(n):
        store(trivial, i, load(trivial, i) * scale)


@jit
def fill_single(n, component, edges, entry, weight, matrix):
    """Sum the weights of edges into one matrix, padded to whole vectors."""
    matrix[: (-(-n // LANES) * LANES) ** 2] = 0.0
    for edge in range(edges[component], edges[component + 1]):
        matrix[np.uint64(entry[edge])] += weight[edge] if len(weight) else 1.0


@jit
def laplacian_single(n, matrix, symmetric, trivial, degree):
    """Turn the tiles on and above the diagonal into a Laplacian; ``trivial`` gets its eigenvector of eigenvalue 0."""
    tiles = -(-n // LANES)
    symmetrize(tiles, matrix)
    for t in range(tiles):
        store(degree, t, splat(0.0))
    for i in range(n):
        total = load(matrix, i * tiles + i // LANES)
        for t in range(i // LANES + 1, tiles):
            entry = load(matrix, i * tiles + t)
            store(degree, t, load(degree, t) + entry)
            total += entry
        degree[i] += sum_lanes(total)
    square = 0.0
    for i in range(tiles * LANES):
        trivial[i] = 0.0 if i >= n else np.sqrt(degree[i]) if symmetric else 1.0
        square += trivial[i] * trivial[i]
    for i in range(n):
        matrix[i * tiles * LANES + i] = -degree[i]
        for t in range(i // LANES, tiles):
            entry = splat(0.0) - load(matrix, i * tiles + t)
            store(matrix, i * tiles + t, entry / scale_of(trivial, i, t) if symmetric else entry)
    for i in range(n):
        trivial[i] /= np.sqrt(square)


@jit
def scale_of(trivial, i, t):
    """The roots of the degrees of node i times those of tile t; 1 where there is no node."""
    scale = splat(trivial[i]) * load(trivial, t)
    return where(splat(0.0) < scale, scale, splat(1.0))


@jit
def symmetrize(tiles, matrix):
    """The larger of each entry and its mirror image, on and above the diagonal tiles; no self-loops."""
    width = np.uint64(tiles * LANES)
    for i in range(width):
        matrix[i * width + i] = 0.0
        above = i // np.uint64(LANES) * np.uint64(LANES) + np.uint64(LANES)
        for j in range(i + np.uint64(1), above):
            matrix[i * width + j] = matrix[j * width + i] = max(matrix[i * width + j], matrix[j * width + i])
    for tile in range(np.uint64(0), width, np.uint64(LANES)):  # by tiles, to stay in the cache
        for j in range(tile + np.uint64(LANES), width):
            for i in range(tile, tile + np.uint64(LANES)):
                matrix[i * width + j] = max(matrix[i * width + j], matrix[j * width + i])
