"""Following the walks of several nodes at once (Numba)."""

import numpy as np

from dgn.kernels.numba.jit import compiled

LANES = 8  # nodes whose walks are followed together: one vector register, or two
ROOM = 256  # nodes for which there is room at first


@compiled
def follow(begin, end, pointer, neighbor, found):
    """Walks of the nodes ``begin`` to ``end``; the edges of node i lead to ``neighbor[pointer[i]:pointer[i+1]]``.

    Rows of ``found`` are nodes [N, T].

    Nodes get a place in the order in which a walk first reaches them, so that only these are looked at. Neighbours in
    number are mostly neighbours in the graph, whose walks reach the same nodes.
    """
    nodes, steps = len(pointer) - 1, found.shape[1]
    place = np.full(nodes, -1, dtype=np.int32)
    reached = np.empty(nodes, dtype=np.int32)
    here, there = np.zeros((ROOM, LANES)), np.zeros((ROOM, LANES))
    for start in range(begin, end, LANES):
        lanes = min(LANES, end - start)
        looked, count = 0, lanes
        for lane in range(lanes):
            place[start + lane], reached[lane], here[lane, lane] = lane, start + lane, 1.0
        for t in range(steps):
            known = count
            for p in range(looked, known):
                count = reach(reached[p], pointer, neighbor, place, reached, count)
            looked = known
            if count > len(here):
                here, there = grow(here, count), grow(there, count)
            for p in range(known):
                spread(p, reached[p], pointer, neighbor, place, here, there)
            here, there = there, here
            for lane in range(lanes):
                found[start + lane, t] = here[lane, lane]
        for p in range(count):
            place[reached[p]] = -1
            here[p], there[p] = 0.0, 0.0


@compiled
def reach(node, pointer, neighbor, place, reached, count):
    """Give a place to the neighbours of a node that have none; returns how many nodes have one."""
    for e in range(pointer[node], pointer[node + 1]):
        if place[neighbor[e]] < 0:
            place[neighbor[e]], reached[count] = count, neighbor[e]
            count += 1
    return count


@compiled
def grow(values, rows):
    """The values with room for at least so many rows."""
    larger = np.zeros((2 * rows, LANES))
    larger[: len(values)] = values
    return larger


@compiled
def spread(p, node, pointer, neighbor, place, here, there):
    """Move what is at a node on to its neighbours, each edge an equal share."""
    first, last = pointer[node], pointer[node + 1]
    share = 1.0 / max(last - first, 1)
    for e in range(first, last):
        q = place[neighbor[e]]
        for lane in range(LANES):
            there[q, lane] += share * here[p, lane]
    for lane in range(LANES):
        here[p, lane] = 0.0


@compiled
def meet(begin, end, starts, pointer, neighbor, found):
    """Rows of the nodes ``starts[begin]`` to ``starts[end]``: all walks of a graph together, each half as long.

    A walk of s + t steps is back where one of s steps and one of t steps meet: the diagonal of P^(s+t) is that of
    P^s P^t, which takes no product of its own.
    """
    here, there = matrices(begin, end, starts)
    for g in range(begin, end):
        first, nodes = starts[g], starts[g + 1] - starts[g]
        stand(nodes, here)
        for t in range(0, found.shape[1], 2):
            step(first, nodes, pointer, neighbor, here, there)
            back(first, nodes, t, there, here, found)
            if t + 1 < found.shape[1]:
                back(first, nodes, t + 1, there, there, found)
            here, there = there, here


@compiled
def matrices(begin, end, starts):
    """Two matrices with room for the largest of the graphs."""
    most = 0
    for g in range(begin, end):
        most = max(most, starts[g + 1] - starts[g])
    return np.empty((most, most)), np.empty((most, most))


@compiled
def stand(nodes, here):
    """Every walk is at the node where it begins."""
    for i in range(nodes):
        for j in range(nodes):
            here[i, j] = 1.0 if i == j else 0.0


@compiled
def step(first, nodes, pointer, neighbor, here, there):
    """P times ``here``."""
    for i in range(nodes):
        gather(i, first, nodes, pointer, neighbor, here, there)


@compiled
def gather(i, first, nodes, pointer, neighbor, here, there):
    """Row i of P times ``here``."""
    row = there[i]
    for j in range(nodes):
        row[j] = 0.0
    begin, end = pointer[first + i], pointer[first + i + 1]
    share = 1.0 / max(end - begin, 1)
    for e in range(begin, end):
        source = here[neighbor[e] - first]
        for j in range(nodes):
            row[j] += share * source[j]


@compiled
def back(first, nodes, t, one, other, found):
    """Column t of ``found``: the diagonal of the product of two powers."""
    for i in range(nodes):
        total, row = 0.0, one[i]
        for j in range(nodes):
            total += row[j] * other[j, i]
        found[first + i, t] = total
