"""Counts of cycles by depth-first search (Numba)."""

import numpy as np

from dgn.kernels.numba.jit import jit


@jit
def count_rings(pointer, neighbor, link, column, induced, limit, nodes, edges):
    """Add every cycle to the counts of its nodes and edges; returns -1, or the node that exceeded ``limit``.

    A cycle is found once: from its lowest node, in the direction in which the second node is lower than the last.
    """
    longest = len(column) - 1
    path, via = np.empty(longest, dtype=np.int64), np.empty(longest, dtype=np.int64)
    cursor = np.empty(longest, dtype=np.int64)
    place = np.full(len(nodes), -1, dtype=np.int64)  # position on the path
    closing_edge = np.full(len(nodes), -1, dtype=np.int64)  # from each node to the start, or -1
    for start in range(len(nodes)):
        neighbors = neighbor[pointer[start] : pointer[start + 1]]
        closing_edge[neighbors] = link[pointer[start] : pointer[start + 1]]
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
            next_node = neighbor[step]
            work += 1
            if next_node <= start or place[next_node] >= 0:
                continue
            chords = induced and depth >= 2  # a path of two nodes has no interior
            if chords:
                work += pointer[next_node + 1] - pointer[next_node]
            if work > limit:
                return start
            if chords and has_chord(next_node, depth, pointer, neighbor, place):
                continue
            closing, via[depth] = closing_edge[next_node], link[step]
            if closing >= 0 and depth >= 1 and path[1] < next_node and column[depth + 2] >= 0:
                add_cycle(path, via, depth, next_node, closing, column[depth + 2], nodes, edges)
            if depth + 2 < longest and not (induced and closing >= 0 and depth >= 1):
                depth += 1
                path[depth], place[next_node], cursor[depth] = next_node, depth, pointer[next_node]
        closing_edge[neighbors] = -1
    return -1


@jit
def has_chord(node, depth, pointer, neighbor, place):
    """Whether an edge leads from the next node to an interior node of the path."""
    chord = False
    for e in range(pointer[node], pointer[node + 1]):
        chord |= 0 < place[neighbor[e]] < depth
    return chord


@jit
def add_cycle(path, via, depth, last, closing, column, nodes, edges):
    """Count one cycle: the path up to ``depth``, then ``last``, then the closing edge."""
    for p in range(depth + 1):
        nodes[path[p], column] += 1
        edges[via[p], column] += 1
    nodes[last, column] += 1
    edges[closing, column] += 1
