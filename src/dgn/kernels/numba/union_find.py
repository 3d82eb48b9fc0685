"""Connected components of an edge list by union-find, and edges sorted by component (Numba)."""

import numpy as np
from numpy.typing import NDArray

from dgn.kernels.numba.jit import jit

Integers = NDArray[np.int64]
Weights = NDArray[np.float64]


@jit
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


@jit
def _root(parent, node):
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@jit
def sort_edges(
    source: Integers, target: Integers, weight: Weights, label: Integers, place: Integers, stride: Integers
) -> tuple[Integers, NDArray[np.uint32], Weights]:
    """Edges by component: their first indices ``[C + 1]``, their positions in its matrix, and their weights.

    The position is row times ``stride [C]`` plus column, the row being the target. Components of stride 0 are left out,
    and so are edges of weight 0, whose ends may be in two components. The order within a component is kept.
    """
    begin = np.zeros(len(stride) + 1, dtype=np.int64)
    last, run = 0, 0  # consecutive edges mostly share a component, and a count in a register is faster
    for edge in range(len(source)):
        if len(weight) and weight[edge] == 0:
            continue
        component = label[target[edge]]
        if component != last:
            begin[last + 1] += run
            last, run = component, 0
        run += 1
    begin[last + 1] += run
    for component in range(len(stride)):
        begin[component + 1] = begin[component] + (begin[component + 1] if stride[component] else 0)
    free = begin[:-1].copy()
    entry = np.empty(begin[-1], dtype=np.uint32)
    value = np.empty(begin[-1] if len(weight) else 0)
    last, offset = 0, 0
    for edge in range(len(source)):
        if len(weight) and weight[edge] == 0:
            continue
        component = label[target[edge]]
        if component != last:
            free[last] += offset
            last, offset = component, 0
        if stride[component]:
            entry[free[component] + offset] = place[target[edge]] * stride[component] + place[source[edge]]
            if len(weight):
                value[free[component] + offset] = weight[edge]
            offset += 1
    return begin, entry, value
