"""Following the walks of several nodes at once (Numba)."""

import numpy as np
from numba import njit

LANES = 8  # nodes whose walks are followed together: one vector register, or two
ROOM = 256  # nodes for which there is room at first

compiled = njit(cache=True, nogil=True, error_model="numpy")


@compiled
def follow(begin, end, pointer, neighbor, found):
    """Rows ``begin`` to ``end`` of ``found`` [N, T]; the edges of node i lead to ``neighbor[pointer[i]:pointer[i+1]]``.

    Nodes get a place in the order in which a walk first reaches them, so that only these are looked at. Neighbours in
    number are mostly neighbours in the graph, whose walks reach the same nodes.
    """
    nodes, steps = found.shape
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
