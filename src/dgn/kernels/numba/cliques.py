"""Counting cliques by meeting lists of neighbours (Numba)."""

import numpy as np

from dgn.kernels.numba.jit import compiled

MEMBER, PARENT, LINK = 0, 1, 2  # a candidate, its place in the level above, and its edge to the last node chosen


@compiled
def count_cliques(pointer, neighbor, column, limit, nodes, edges):
    """Add every clique to the counts of its nodes and edges; -1, or the node whose work went over ``limit``.

    Edges lead from lower to higher nodes, so that a clique is found once, its nodes chosen in order. Level d holds the
    candidates that are joined to all of the d + 1 nodes chosen so far: each of them closes a clique of d + 2.
    """
    widest = 0
    for node in range(len(nodes)):
        widest = max(widest, pointer[node + 1] - pointer[node])
    deepest = min(len(column) - 3, widest)
    found = np.empty((deepest + 1, 3, widest), dtype=np.int64)
    size, cursor = np.zeros(deepest + 1, dtype=np.int64), np.zeros(deepest + 1, dtype=np.int64)
    through = np.zeros((deepest + 1, widest, nodes.shape[1]), dtype=np.int64)  # cliques with a candidate of a level
    total = np.zeros((deepest + 1, nodes.shape[1]), dtype=np.int64)
    for start in range(len(nodes)):
        size[0], cursor[0], work, depth = pointer[start + 1] - pointer[start], 0, 0, 0
        for k in range(size[0]):
            found[0, MEMBER, k], found[0, LINK, k] = neighbor[pointer[start] + k], pointer[start] + k
        while depth >= 0:
            if depth == deepest or cursor[depth] == size[depth]:
                chosen = cursor[depth - 1] - 1
                close(depth, start, column[depth + 2], found, size[depth], chosen, through, total, nodes, edges)
                depth -= 1
                continue
            work += meet(depth, cursor[depth], pointer, neighbor, found, size)
            if work > limit:
                return start
            cursor[depth] += 1
            depth += 1
            cursor[depth] = 0
    return -1


@compiled
def meet(depth, chosen, pointer, neighbor, found, size):
    """Choose one more node: the candidates behind it that it is joined to are the next level; how many were seen."""
    above, below = found[depth], found[depth + 1]
    node = above[MEMBER, chosen]
    a, b, count = chosen + 1, pointer[node], 0
    while a < size[depth] and b < pointer[node + 1]:
        if above[MEMBER, a] < neighbor[b]:
            a += 1
        elif above[MEMBER, a] > neighbor[b]:
            b += 1
        else:
            below[MEMBER, count], below[PARENT, count], below[LINK, count] = neighbor[b], a, b
            a, b, count = a + 1, b + 1, count + 1
    size[depth + 1] = count
    return 1 + a - chosen + b - pointer[node]


@compiled
def close(depth, start, column, found, size, chosen, through, total, nodes, edges):
    """Hand the cliques of a level to its edges and to the level above, at last to the nodes."""
    if column >= 0:
        total[depth, column] += size
    for k in range(size):
        if column >= 0:
            through[depth, k, column] += 1
        for s in range(nodes.shape[1]):
            cliques, through[depth, k, s] = through[depth, k, s], 0
            edges[found[depth, LINK, k], s] += cliques
            if depth:
                through[depth - 1, found[depth, PARENT, k], s] += cliques
            else:
                nodes[found[depth, MEMBER, k], s] += cliques
    for s in range(nodes.shape[1]):
        cliques, total[depth, s] = total[depth, s], 0
        if depth:
            through[depth - 1, chosen, s] += cliques
            total[depth - 1, s] += cliques
        else:
            nodes[start, s] += cliques
