"""Return probabilities of random walks, several start nodes at once (Numba)."""

import numpy as np

from dgn.kernels.numba.jit import jit

LANES = 8  # start nodes per pass: one or two vector registers
CAPACITY = 256  # nodes, initially


@jit
def walk_from_nodes(begin, end, pointer, neighbor, probability):
    """Return probabilities of the nodes ``begin`` to ``end - 1``, rows of ``probability`` [N, T].

    The edges of node i lead to ``neighbor[pointer[i]:pointer[i+1]]``. Nodes get a local index in the order in which a
    walk first reaches them, so that only these are visited. Consecutive nodes are mostly neighbours in the graph, whose
    walks reach the same nodes.
    """
    nodes, steps = len(pointer) - 1, probability.shape[1]
    place = np.full(nodes, -1, dtype=np.int32)
    reached = np.empty(nodes, dtype=np.int32)
    now, after = np.zeros((CAPACITY, LANES)), np.zeros((CAPACITY, LANES))
    for start in range(begin, end, LANES):
        lanes = min(LANES, end - start)
        num_expanded, count = 0, lanes
        for lane in range(lanes):
            place[start + lane], reached[lane], now[lane, lane] = lane, start + lane, 1.0
        for t in range(steps):
            num_reached = count
            for p in range(num_expanded, num_reached):
                count = reach(reached[p], pointer, neighbor, place, reached, count)
            num_expanded = num_reached
            if count > len(now):
                now, after = grow(now, count), grow(after, count)
            for p in range(num_reached):
                spread(p, reached[p], pointer, neighbor, place, now, after)
            now, after = after, now
            for lane in range(lanes):
                probability[start + lane, t] = now[lane, lane]
        for p in range(count):
            place[reached[p]] = -1
            now[p], after[p] = 0.0, 0.0


@jit
def reach(node, pointer, neighbor, place, reached, count):
    """Give a local index to the neighbours of a node that have none; returns the number of indices."""
    for e in range(pointer[node], pointer[node + 1]):
        if place[neighbor[e]] < 0:
            place[neighbor[e]], reached[count] = count, neighbor[e]
            count += 1
    return count


@jit
def grow(values, rows):
    """The values in an array of twice ``rows`` rows."""
    larger = np.zeros((2 * rows, LANES))
    larger[: len(values)] = values
    return larger


@jit
def spread(p, node, pointer, neighbor, place, now, after):
    """Distribute the probability at a node equally over its edges."""
    first, last = pointer[node], pointer[node + 1]
    share = 1.0 / max(last - first, 1)
    for e in range(first, last):
        q = place[neighbor[e]]
        for lane in range(LANES):
            after[q, lane] += share * now[p, lane]
    for lane in range(LANES):
        now[p, lane] = 0.0


@jit
def walk_small_graphs(begin, end, starts, pointer, neighbor, probability):
    """Return probabilities of graphs ``begin`` to ``end - 1``, whose nodes are ``starts[g]`` to ``starts[g + 1] - 1``.

    The diagonal of P^(s+t) is that of P^s P^t, so that powers up to half the number of steps suffice.
    """
    now, after = matrices(begin, end, starts)
    for g in range(begin, end):
        first, nodes = starts[g], starts[g + 1] - starts[g]
        identity(nodes, now)
        for t in range(0, probability.shape[1], 2):
            step(first, nodes, pointer, neighbor, now, after)
            diagonal_of_product(first, nodes, t, after, now, probability)
            if t + 1 < probability.shape[1]:
                diagonal_of_product(first, nodes, t + 1, after, after, probability)
            now, after = after, now


@jit
def matrices(begin, end, starts):
    """Two square matrices of the size of the largest graph."""
    largest = 0
    for g in range(begin, end):
        largest = max(largest, starts[g + 1] - starts[g])
    return np.empty((largest, largest)), np.empty((largest, largest))


@jit
def identity(nodes, now):
    """Write the identity: every walk is at its start node."""
    for i in range(nodes):
        for j in range(nodes):
            now[i, j] = 1.0 if i == j else 0.0


@jit
def step(first, nodes, pointer, neighbor, now, after):
    """``after = P @ now``."""
    for i in range(nodes):
        gather(i, first, nodes, pointer, neighbor, now, after)


@jit
def gather(i, first, nodes, pointer, neighbor, now, after):
    """Row i of ``P @ now``."""
    row = after[i]
    for j in range(nodes):
        row[j] = 0.0
    begin, end = pointer[first + i], pointer[first + i + 1]
    share = 1.0 / max(end - begin, 1)
    for e in range(begin, end):
        source = now[neighbor[e] - first]
        for j in range(nodes):
            row[j] += share * source[j]


@jit
def diagonal_of_product(first, nodes, t, left, right, probability):
    """Column t of ``probability``: the diagonal of the product of two powers."""
    for i in range(nodes):
        total, row = 0.0, left[i]
        for j in range(nodes):
            total += row[j] * right[j, i]
        probability[first + i, t] = total
