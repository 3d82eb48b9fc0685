"""One pass on the CPU (Numba): each target node reads its neighbours once, vectorised over channels."""

import numpy as np
from numba import njit

from dgn.aggregation.plan import Code

SUM, MEAN, MAX, MIN, VAR, STD, SIGNED, ABSOLUTE = (int(code) for code in Code)
SMALLEST_VARIANCE = 1e-5
compiled = njit(cache=True, nogil=True, error_model="numpy")


@compiled
def has(codes, first, second):
    for code in codes:
        if code in (first, second):
            return True
    return False


@compiled
def read_message(m, source, target, table, i, j, r):
    """The message of one edge, into ``m``."""
    if len(source):
        for c in range(len(m)):
            m[c] = source[j, c]
    else:
        m[:] = 0
    if len(target):
        for c in range(len(m)):
            m[c] += target[i, c]
    if len(table):
        for c in range(len(m)):
            m[c] += table[r, c]


@compiled
def add(total, factor, m):
    for c in range(len(m)):
        total[c] += factor * m[c]


@compiled
def grow_extreme(largest, place, m, factor, offset):
    """Keep the largest of ``factor * m`` and its place; the first of equals stays."""
    for c in range(len(m)):
        value = factor * m[c]
        better = value > largest[c]
        largest[c] = value if better else largest[c]
        place[c] = offset if better else place[c]


@compiled
def grow_variance(shifted, squares, pivot, m):
    for c in range(len(m)):
        away = m[c] - pivot[c]
        shifted[c] += away
        squares[c] += away * away


@compiled
def finish_isotropic(code, out, count, total, shifted, squares, largest, smallest):
    for c in range(len(out)):
        variance = max(squares[c] / count - (shifted[c] / count) ** 2, 0.0)
        if code == SUM:
            out[c] = total[c]
        elif code == MEAN:
            out[c] = total[c] / count
        elif code == MAX:
            out[c] = largest[c]
        elif code == MIN:
            out[c] = 0.0 - smallest[c]
        elif code == VAR:
            out[c] = variance
        else:
            out[c] = np.sqrt(variance) if variance > SMALLEST_VARIANCE else 0.0


@compiled
def finish_directional(code, out, along, self_weight, source, target, node, i, sign, has_self):
    for c in range(len(out)):
        value = along[c]
        if has_self:
            if len(node):
                value += self_weight * node[i, c]
            else:
                if len(source):
                    value += self_weight * source[i, c]
                if len(target):
                    value += self_weight * target[i, c]
        if code == ABSOLUTE:
            if len(sign):
                sign[c] = -1 if value < 0 else (1 if value > 0 else 0)
            value = abs(value)
        out[c] = value


@compiled
def aggregate_nodes(first, last, source, target, table, weight, self_weight, row, pointer, neighbor, codes, columns,
             has_self, node, out, at_max, at_min, sign, average):  # fmt: skip
    channels, columns_of_weight = out.shape[2], weight.shape[1]
    need_sum, need_var = has(codes, SUM, MEAN), has(codes, VAR, STD)
    need_max, need_min = has(codes, MAX, MAX), has(codes, MIN, MIN)
    no_sign = np.empty(0, dtype=np.int8)
    m = np.empty(channels, out.dtype)
    rows = np.empty((6, channels), out.dtype)
    total, shifted, squares, pivot, largest, smallest = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5]
    along = np.empty((columns_of_weight, channels), out.dtype)
    places = np.empty((2, channels), np.int32)
    for i in range(first, last):
        begin, end = pointer[i], pointer[i + 1]
        rows[:] = 0
        along[:] = 0
        places[:] = -1
        if end > begin:
            largest[:] = -np.inf
            smallest[:] = -np.inf
        for slot in range(begin, end):
            read_message(m, source, target, table, i, neighbor[slot], row[slot])
            if need_sum:
                add(total, 1, m)
            if need_var:
                if slot == begin:
                    pivot[:] = m
                grow_variance(shifted, squares, pivot, m)
            if need_max:
                grow_extreme(largest, places[0], m, 1, slot - begin)
            if need_min:
                grow_extreme(smallest, places[1], m, -1, slot - begin)
            for column in range(columns_of_weight):
                add(along[column], weight[slot, column], m)
        count = max(end - begin, 1)
        for a in range(len(codes)):
            if codes[a] < SIGNED:
                finish_isotropic(codes[a], out[i, a], count, total, shifted, squares, largest, smallest)
            else:
                k = columns[a]
                finish_directional(codes[a], out[i, a], along[k], self_weight[i, k], source, target, node, i,
                                    sign[i, k] if len(sign) else no_sign, has_self)  # fmt: skip
        if len(average):
            average[i] = shifted / count
        if len(at_max):
            at_max[i] = places[0]
        if len(at_min):
            at_min[i] = places[1]
