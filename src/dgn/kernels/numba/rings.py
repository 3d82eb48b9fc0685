"""Counting cycles by following paths (Numba)."""

import numpy as np

from dgn.kernels.numba.jit import compiled


@compiled
def count_rings(pointer, neighbor, link, column, induced, limit, nodes, edges):
    """Add every cycle to the counts of its nodes and undirected edges; -1, or the node whose work went over ``limit``.

    A cycle is found once: from its lowest node, in the direction in which the second node is lower than the last.
    """
    longest = len(column) - 1
    path, via = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    cursor = np.empty(longest, dtype=np.int64)
    place = np.full(len(nodes), -1, dtype=np.int64)  # on the path
    home = np.full(len(nodes), -1, dtype=np.int64)  # the edge of a node to the start
    for start in range(len(nodes)):
        around = neighbor[pointer[start] : pointer[start + 1]]
        home[around] = link[pointer[start] : pointer[start + 1]]
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
            chords = induced and depth >= 2  # a path of two nodes has no inside
            if chords:
                work += pointer[other + 1] - pointer[other]
            if work > limit:
                return start
            if chords and has_chord(other, depth, pointer, neighbor, place):
                continue
            closing, via[depth] = home[other], link[step]
            if closing >= 0 and depth >= 1 and path[1] < other and column[depth + 2] >= 0:
                add_cycle(path, via, depth, other, closing, column[depth + 2], nodes, edges)
            if depth + 2 < longest and not (induced and closing >= 0 and depth >= 1):
                depth += 1
                path[depth], place[other], cursor[depth] = other, depth, pointer[other]
        home[around] = -1
    return -1


@compiled
def has_chord(node, depth, pointer, neighbor, place):
    """Whether an edge leads from a node behind the path to one inside it."""
    chord = False
    for e in range(pointer[node], pointer[node + 1]):
        chord |= 0 < place[neighbor[e]] < depth
    return chord


@compiled
def add_cycle(path, via, depth, last, closing, column, nodes, edges):
    """One more cycle: the path up to ``depth``, then ``last``, then back."""
    for p in range(depth + 1):
        nodes[path[p], column] += 1
        edges[via[p], column] += 1
    nodes[last, column] += 1
    edges[closing, column] += 1
