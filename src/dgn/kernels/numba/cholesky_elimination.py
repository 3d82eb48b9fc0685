"""Randomised elimination of the nodes of a weighted graph (Numba): the core of the approximate Cholesky factorisation.

A half-edge is a slot of a linked list: the ``node`` it leads to, its ``weight``, its ``twin`` in the list of that node,
and the ``next_slot`` of its list. Eliminating a node turns each of its edges into one edge between two of its
neighbours, so that no slot is ever allocated. A weight of 0 marks a dead slot.
"""

import numpy as np
from numba import uint32, uint64

from dgn.kernels.numba.jit import jit

NONE = uint32(0xFFFFFFFF)
EXACT = 64  # degrees below have a bucket each; above, one bucket per power of two
BUCKETS = EXACT + 33
SMALL = 24  # neighbours up to which insertion sort is the fastest
ONE = uint32(1)


@jit
def eliminate(start, node, weight, seed):
    """Eliminate all nodes of one connected graph.

    ``start`` [n + 1] uint32, ``node`` and ``weight`` [2 E] are the symmetric adjacency in CSR, columns ascending.

    Returns ``order`` [n] and, for the c-th eliminated node, ``pivot[c]``, its weighted degree at that time, and its
    column: rows ``row[first[c] : first[c + 1]]`` (nodes) with entries ``entry``, the normalised weights of its
    neighbours, which sum to 1. The last pivot is 0.
    """
    n, slots = uint32(len(start) - 1), uint32(len(node))
    twin, next_slot, head = _twins(start, node), np.empty(slots, np.uint32), start[:-1].copy()
    degree, bucket_of = np.empty(n, np.uint32), np.empty(n, np.uint32)
    first_in, before, after = np.full(BUCKETS, NONE), np.full(n, NONE), np.full(n, NONE)
    for i in range(n):
        degree[i] = start[i + ONE] - start[i]
        if degree[i] == uint32(0):
            head[i] = NONE
        for slot in range(start[i], start[i + ONE]):
            next_slot[slot] = slot + ONE if slot + ONE < start[i + ONE] else NONE
    for i in range(n):  # last to first, so that each bucket starts in ascending order
        _enter(n - ONE - i, degree, bucket_of, first_in, before, after)
    order, pivot, first = np.empty(n, np.uint32), np.zeros(n), np.zeros(n + ONE, np.uint32)
    row, entry = np.empty(slots, np.uint32), np.empty(slots, np.float32)
    position, slots_of_node, total = np.full(n, NONE), np.empty(256, np.uint32), np.empty(256)
    state = uint64(seed) * uint64(0x9E3779B97F4A7C15) + uint64(0x2545F4914F6CDD1D)
    lowest, end = uint32(0), uint32(0)
    for c in range(n):
        while first_in[lowest] == NONE:
            lowest += ONE
        i = first_in[lowest]
        _leave(i, bucket_of, first_in, before, after)
        order[c] = i
        while len(slots_of_node) <= degree[i] + ONE:
            slots_of_node, total = np.empty(2 * len(slots_of_node), np.uint32), np.empty(2 * len(slots_of_node))
        count = _collect(i, head, next_slot, twin, node, weight, position, slots_of_node, degree)
        while len(row) <= end + count:
            row, entry = _longer(row), _longer(entry)
        _sort(slots_of_node, weight, count)
        state = _column(
            count, slots_of_node, total, node, weight, twin, next_slot, head, degree, row, entry, end, pivot, c, state
        )
        for q in range(end, end + count):
            lowest = min(lowest, _move(row[q], degree, bucket_of, first_in, before, after))
        end += count
        first[c + ONE] = end
    return order, pivot, first, row[:end].copy(), entry[:end].copy()


@jit
def _twins(start, node):
    """The slot of the same edge in the list of its other end; rows in order visit the slots of a node in order."""
    n = uint32(len(start) - 1)
    twin, position = np.empty(len(node), np.uint32), start[:-1].copy()
    for i in range(n):
        for slot in range(start[i], start[i + ONE]):
            twin[slot] = position[node[slot]]
            position[node[slot]] += ONE
    return twin


@jit
def _collect(i, head, next_slot, twin, node, weight, position, slots_of_node, degree):
    """The live slots of node i, one per neighbour: parallel edges are added up. Returns their number."""
    count = uint32(0)
    slot = head[i]
    while slot != NONE:
        if weight[slot] > 0.0:
            j = node[slot]
            index = position[j]
            if index == NONE:
                position[j] = count
                slots_of_node[count] = slot
                count += ONE
            else:
                weight[slots_of_node[index]] += weight[slot]
                weight[twin[slot]] = 0.0
                degree[j] -= ONE
        slot = next_slot[slot]
    for q in range(count):
        position[node[slots_of_node[q]]] = NONE
    return count


@jit
def _sort(slots_of_node, weight, count):
    """Sort slots by ascending weight, in place; the sort is stable."""
    if count > SMALL:
        keys = np.empty(count)
        for q in range(count):
            keys[q] = weight[slots_of_node[q]]
        sorted_slots = slots_of_node[:count][np.argsort(keys, kind="mergesort")]
        for q in range(count):
            slots_of_node[q] = sorted_slots[q]
        return
    for q in range(ONE, count):
        slot = slots_of_node[q]
        value = weight[slot]
        p = q
        while p > uint32(0) and weight[slots_of_node[p - ONE]] > value:
            slots_of_node[p] = slots_of_node[p - ONE]
            p -= ONE
        slots_of_node[p] = slot


@jit
def _column(count, slots_of_node, total, node, weight, twin, next_slot, head, degree, row, entry, end, pivot, c, state):
    """Write the column of a node, and join each neighbour but the last to a heavier one, drawn by weight.

    The neighbour of weight w gets an edge of weight w s / d, where s is the weight of the heavier ones and d of all:
    in expectation the clique that exact elimination would leave.
    """
    if count == uint32(0):
        return state
    running = 0.0
    for q in range(count):
        running += weight[slots_of_node[q]]
        total[q] = running
    pivot[c] = running
    last = count - ONE
    for q in range(count):
        slot = slots_of_node[q]
        j = node[slot]
        row[end + q] = j
        entry[end + q] = weight[slot] / running
        twin_slot = twin[slot]
        if q == last:
            weight[twin_slot] = 0.0
            degree[j] -= ONE
            break
        heavier = running - total[q]
        state ^= state << uint64(13)
        state ^= state >> uint64(7)
        state ^= state << uint64(17)
        chance = float(state >> uint64(11)) * 1.1102230246251565e-16
        chosen = _search(total, q + ONE, last, total[q] + chance * heavier)
        k = node[slots_of_node[chosen]]
        new_weight = weight[slot] * heavier / running
        node[twin_slot], weight[twin_slot] = k, new_weight
        node[slot], weight[slot] = j, new_weight
        next_slot[slot], head[k] = head[k], slot
        degree[k] += ONE
    return state


@jit
def _search(total, low, high, value):
    """The first of ``low`` to ``high`` whose running total reaches ``value``."""
    while low < high:
        middle = (low + high) >> ONE
        if total[middle] < value:
            low = middle + ONE
        else:
            high = middle
    return low


@jit
def _longer(array):
    longer = np.empty(2 * len(array) + 64, array.dtype)
    longer[: len(array)] = array
    return longer


@jit
def _bucket(degree):
    """The bucket of a degree: small degrees themselves, large ones by their number of bits."""
    if degree < uint32(EXACT):
        return degree
    bits = uint32(0)
    while degree > uint32(0):
        degree >>= ONE
        bits += ONE
    return uint32(EXACT) + bits


@jit
def _enter(i, degree, bucket_of, first_in, before, after):
    bucket = _bucket(degree[i])
    bucket_of[i], before[i], after[i] = bucket, NONE, first_in[bucket]
    if first_in[bucket] != NONE:
        before[first_in[bucket]] = i
    first_in[bucket] = i
    return bucket


@jit
def _leave(i, bucket_of, first_in, before, after):
    if before[i] == NONE:
        first_in[bucket_of[i]] = after[i]
    else:
        after[before[i]] = after[i]
    if after[i] != NONE:
        before[after[i]] = before[i]


@jit
def _move(i, degree, bucket_of, first_in, before, after):
    """Move a node whose degree changed to its bucket, and return the bucket."""
    bucket = _bucket(degree[i])
    if bucket != bucket_of[i]:
        _leave(i, bucket_of, first_in, before, after)
        _enter(i, degree, bucket_of, first_in, before, after)
    return bucket
