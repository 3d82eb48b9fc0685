"""Counting cycles by following paths (Numba)."""

import numpy as np
from numba import njit

compiled = njit(cache=True, nogil=True, error_model="numpy")


@compiled
def count_rings(pointer, neighbor, link, column, induced, limit, nodes, edges):
    """Add every cycle to the counts of its nodes and undirected edges; -1, or the node whose work went over ``limit``.

    A cycle is found once: from its lowest node, in the direction in which the second node is lower than the last.
    """
    longest = len(column) - 1
    path, via = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    cursor = np.empty(longest, dtype=np.int64)
    place = np.full(len(nodes), -1, dtype=np.int64)  # on the path
    for start in range(len(nodes)):
        work, depth = 0, 0
        path[0], place[start], cursor[0] = start, 0, pointer[start]
        while depth >= 0:
            node = path[depth]
            if cursor[depth] == pointer[node + 1]:
                place[node] = -1
                depth -= 1
                continue
            step = cursor[depth]
            cursor[depth] += 1
            other = neighbor[step]
            work += 1
            if other <= start or place[other] >= 0:
                continue
            work += pointer[other + 1] - pointer[other]
            if work > limit:
                return start
            closing, chord = look_around(other, start, depth, pointer, neighbor, link, place)
            if induced and chord:
                continue
            via[depth] = link[step]
            if closing >= 0 and depth >= 1 and path[1] < other and column[depth + 2] >= 0:
                add_cycle(path, via, depth, other, closing, column[depth + 2], nodes, edges)
            if depth + 2 < longest and not (induced and closing >= 0 and depth >= 1):
                depth += 1
                path[depth], place[other], cursor[depth] = other, depth, pointer[other]
    return -1


@compiled
def look_around(node, start, depth, pointer, neighbor, link, place):
    """The edge from a node behind the path to its start, or -1; and whether another one leads inside the path."""
    closing, chord = -1, False
    for e in range(pointer[node], pointer[node + 1]):
        other = neighbor[e]
        if other == start:
            closing = link[e]
        elif 0 < place[other] < depth:
            chord = True
    return closing, chord


@compiled
def add_cycle(path, via, depth, last, closing, column, nodes, edges):
    """One more cycle: the path up to ``depth``, then ``last``, then back."""
    for p in range(depth + 1):
        nodes[path[p], column] += 1
        edges[via[p], column] += 1
    nodes[last, column] += 1
    edges[closing, column] += 1
