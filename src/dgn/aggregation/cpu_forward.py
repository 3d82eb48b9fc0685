"""One pass on the CPU (Numba): each target node reads its neighbours once, vectorised over channels."""

import numpy as np
from numba import njit

from dgn.aggregation.plan import SMALLEST_VARIANCE, Code

SUM, MEAN, MAX, MIN, VAR, STD, SIGNED, ABSOLUTE = (int(code) for code in Code)
compiled = njit(cache=True, nogil=True, error_model="numpy")


@compiled
def has(codes, first, second):
    for code in codes:
        if code in (first, second):
            return True
    return False


@compiled
def read_message(m, source, target, table, i, j, r):
    """The message of one edge, into row 0 of ``m``."""
    for c in range(m.shape[1]):
        m[0, c] = source[j, c] if len(source) else 0
    if len(target):
        for c in range(m.shape[1]):
            m[0, c] += target[i, c]
    if len(table):
        for c in range(m.shape[1]):
            m[0, c] += table[r, c]


# Rows are named by an array and a number: taking a row as an array of its own costs more than the work on it.


@compiled
def add(total, row, factor, values, which):
    for c in range(values.shape[1]):
        total[row, c] += factor * values[which, c]


@compiled
def add_pair(total, row, first, second, values, which):
    """Two sums, into this row and the next, from one reading."""
    for c in range(values.shape[1]):
        total[row, c] += first * values[which, c]
        total[row + 1, c] += second * values[which, c]


@compiled
def grow_extreme(largest, row, place, factor, values, which, offset):
    """Keep the largest of ``factor * values`` and, where there is room, its place; the first of equals stays."""
    if place.shape[1] == 0:
        for c in range(values.shape[1]):
            value = factor * values[which, c]
            largest[row, c] = value if value > largest[row, c] else largest[row, c]
    else:
        for c in range(values.shape[1]):
            value = factor * values[which, c]
            better = value > largest[row, c]
            largest[row, c] = value if better else largest[row, c]
            place[row, c] = offset if better else place[row, c]


@compiled
def grow_variance(moments, pivot, values, which):
    for c in range(values.shape[1]):
        away = values[which, c] - pivot[c]
        moments[0, c] += away
        moments[1, c] += away * away


@compiled
def finish_isotropic(code, out, i, a, count, total, moments, extremes):
    """One output that no direction enters."""
    for c in range(out.shape[2]):
        if code == SUM:
            out[i, a, c] = total[0, c]
        elif code == MEAN:
            out[i, a, c] = total[0, c] / count
        elif code == MAX:
            out[i, a, c] = extremes[0, c]
        elif code == MIN:
            out[i, a, c] = 0 - extremes[1, c]
        else:
            variance = max(moments[1, c] / count - (moments[0, c] / count) ** 2, 0)
            if code == STD:
                variance = np.sqrt(variance) if variance > SMALLEST_VARIANCE else 0
            out[i, a, c] = variance


@compiled
def finish_directional(code, out, i, a, along, column, factor, source, target, node, sign):
    """One directional output; ``factor`` weighs the node itself."""
    for c in range(out.shape[2]):
        out[i, a, c] = along[column, c]
    if factor != 0:
        if len(node):
            for c in range(out.shape[2]):
                out[i, a, c] += factor * node[i, c]
        if len(node) == 0 and len(source):
            for c in range(out.shape[2]):
                out[i, a, c] += factor * source[i, c]
        if len(node) == 0 and len(target):
            for c in range(out.shape[2]):
                out[i, a, c] += factor * target[i, c]
    if code == ABSOLUTE:
        if len(sign):
            for c in range(out.shape[2]):
                sign[i, column, c] = np.sign(out[i, a, c])
        for c in range(out.shape[2]):
            out[i, a, c] = abs(out[i, a, c])


@compiled
def aggregate_nodes(
    first, last, source, target, table, weight, self_weight, row, pointer, neighbor, codes, columns, has_self,
    node, out, at_max, at_min, sign, average,
):  # fmt: skip
    """All outputs of some nodes."""
    channels, columns_of_weight = out.shape[2], weight.shape[1]
    need_sum, need_var = has(codes, SUM, MEAN), has(codes, VAR, STD)
    need_max, need_min = has(codes, MAX, MAX), has(codes, MIN, MIN)
    one = out.dtype.type(1)  # of the same kind as the messages: a Python number would turn them to float64
    m, pivot = np.empty((1, channels), out.dtype), np.empty(channels, out.dtype)
    total, moments = np.empty((1, channels), out.dtype), np.empty((2, channels), out.dtype)
    extremes = np.empty((2, channels), out.dtype)
    along = np.empty((columns_of_weight, channels), out.dtype)
    places = np.empty((2, channels if len(at_max) or len(at_min) else 0), np.int32)
    direct = len(target) == 0 and len(table) == 0  # the message is the row of the source: no need to copy it
    for i in range(first, last):
        begin, end = pointer[i], pointer[i + 1]
        count = out.dtype.type(max(end - begin, 1))
        total[:] = 0
        moments[:] = 0
        along[:] = 0
        places[:] = -1
        extremes[:] = -np.inf if end > begin else 0
        for slot in range(begin, end):
            values, which = (source, neighbor[slot]) if direct else (m, 0)
            if not direct:
                read_message(m, source, target, table, i, neighbor[slot], row[slot])
            if need_sum:
                add(total, 0, one, values, which)
            if need_var:
                if slot == begin:
                    pivot[:] = values[which]
                grow_variance(moments, pivot, values, which)
            if need_max:
                grow_extreme(extremes, 0, places, one, values, which, slot - begin)
            if need_min:
                grow_extreme(extremes, 1, places, -one, values, which, slot - begin)
            for column in range(0, columns_of_weight - 1, 2):
                add_pair(along, column, weight[slot, column], weight[slot, column + 1], values, which)
            if columns_of_weight % 2:
                add(along, columns_of_weight - 1, weight[slot, columns_of_weight - 1], values, which)
        for a in range(len(codes)):
            if codes[a] < SIGNED:
                finish_isotropic(codes[a], out, i, a, count, total, moments, extremes)
            else:
                factor = self_weight[i, columns[a]] if has_self else 0 * one
                finish_directional(codes[a], out, i, a, along, columns[a], factor, source, target, node, sign)
        if len(average):
            average[i] = moments[0] / count
        if len(at_max):
            at_max[i] = places[0]
        if len(at_min):
            at_min[i] = places[1]
