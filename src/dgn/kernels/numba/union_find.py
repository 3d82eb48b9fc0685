"""Components straight from a list of edges (Numba): a forest of parents, and the edges sorted by component."""

import numpy as np
from numpy.typing import NDArray

from dgn.kernels.numba.jit import compiled

Integers = NDArray[np.int64]
Weights = NDArray[np.float64]


@compiled
def connected(source: Integers, target: Integers, weight: Weights, num_nodes: int) -> Integers:
    """The component of each node, numbered by first node; edges of weight 0 do not connect.

    ``weight`` is empty where every edge has weight 1.
    """
    parent = np.arange(num_nodes)
    for edge in range(len(source)):
        if len(weight) and weight[edge] == 0.0:
            continue
        if parent[source[edge]] == parent[target[edge]]:
            continue
        a, b = _root(parent, source[edge]), _root(parent, target[edge])
        if a != b:  # the smaller one stays root, so that a root is the first node of its component
            parent[max(a, b)] = min(a, b)
    label = np.empty(num_nodes, dtype=np.int64)
    count = 0
    for node in range(num_nodes):
        if parent[node] == node:
            label[node] = count
            count += 1
        else:
            label[node] = label[_root(parent, node)]
    return label


@compiled
def _root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@compiled
def sort_edges(
    source: Integers, target: Integers, weight: Weights, label: Integers, place: Integers, stride: Integers
) -> tuple[Integers, NDArray[np.uint32], Weights]:
    """Edges by component: where those of each begin ``[C + 1]``, their place in its matrix, and their weight.

    The place is row times ``stride [C]`` plus column, the row being the target. Components of stride 0 (those that are
    not wanted) are left out, and so are edges of weight 0, whose ends may be of two components; the order within a
    component is kept.
    """
    begin = np.zeros(len(stride) + 1, dtype=np.int64)
    last, run = 0, 0  # neighbours in the list mostly belong together, and a sum in a register is faster
    for edge in range(len(source)):
        if len(weight) and weight[edge] == 0:
            continue
        member = label[target[edge]]
        if member != last:
            begin[last + 1] += run
            last, run = member, 0
        run += 1
    begin[last + 1] += run
    for member in range(len(stride)):
        begin[member + 1] = begin[member] + (begin[member + 1] if stride[member] else 0)
    free = begin[:-1].copy()
    entry = np.empty(begin[-1], dtype=np.uint32)
    value = np.empty(begin[-1] if len(weight) else 0)
    last, here = 0, 0
    for edge in range(len(source)):
        if len(weight) and weight[edge] == 0:
            continue
        member = label[target[edge]]
        if member != last:
            free[last] += here
            last, here = member, 0
        if stride[member]:
            entry[free[member] + here] = place[target[edge]] * stride[member] + place[source[edge]]
            if len(weight):
                value[free[member] + here] = weight[edge]
            here += 1
    return begin, entry, value
