"""Forward pass on the CPU (Numba): each target node reads its neighbours once, sixteen channels at a time."""

import numpy as np

from dgn.kernels.aggregation import SMALLEST_VARIANCE, Code
from dgn.kernels.numba.jit import inline_jit, jit
from dgn.kernels.numba.simd import WIDTH, load, load_part, splat, sqrt, store, where_above, where_larger

SUM, MEAN, MAX, MIN, VAR, STD, SIGNED, ABSOLUTE = (int(code) for code in Code)


@inline_jit
def has(codes, first, second):
    for code in codes:
        if code in (first, second):
            return True
    return False


@inline_jit
def block_start(block, channels):
    """The first channel of a block; the last block overlaps the previous one and recomputes some channels."""
    return min(block * WIDTH, channels - WIDTH)


@inline_jit
def isotropic(code, count, total, moment, second, largest, smallest, zero, limit):
    """One isotropic output."""
    if code == SUM:
        return total
    if code == MEAN:
        return total / count
    if code == MAX:
        return largest
    if code == MIN:
        return zero - smallest
    mean = moment / count
    variance = second / count - mean * mean
    if code == VAR:
        return where_larger(variance, zero, variance, zero)
    return where_larger(variance, limit, sqrt(variance), zero)


@inline_jit
def sign_of(value, zero):
    above, below, neither = splat(np.int8(1)), splat(np.int8(-1)), splat(np.int8(0))
    return where_above(value, zero, above, where_above(zero, value, below, neither))


@jit
def aggregate_nodes(
    first, last, source, target, table, weight, self_weight, row, pointer, neighbor, codes, columns, has_self,
    node, out, at_max, at_min, sign, average,
):  # fmt: skip
    """All outputs of nodes ``first`` to ``last - 1``."""
    channels, columns_of_weight = out.shape[2], weight.shape[1]
    need_sum, need_var = has(codes, SUM, MEAN), has(codes, VAR, STD)
    need_max, need_min = has(codes, MAX, MAX), has(codes, MIN, MIN)
    zero, limit = splat(out.dtype.type(0)), splat(out.dtype.type(SMALLEST_VARIANCE))
    lowest, nowhere = splat(out.dtype.type(-np.inf)), splat(np.int32(-1))
    sums = np.empty((columns_of_weight, WIDTH), out.dtype)
    for i in range(first, last):
        begin, end = pointer[i], pointer[i + 1]
        count = out.dtype.type(max(end - begin, 1))
        for block in range((channels + WIDTH - 1) // WIDTH):
            c = block_start(block, channels)
            target_part = load_part(target, (i, c))
            total, moment, second, place_max, place_min = zero, zero, zero, nowhere, nowhere
            largest, smallest = (lowest, lowest) if end > begin else (zero, zero)  # the smallest is negated
            pivot = zero
            if need_var and end > begin:
                pivot = target_part + load_part(source, (neighbor[begin], c)) + load_part(table, (row[begin], c))
            for column in range(columns_of_weight):
                store(sums, (column, 0), zero)
            for slot in range(begin, end):
                m = target_part + load_part(source, (neighbor[slot], c)) + load_part(table, (row[slot], c))
                if need_sum:
                    total = total + m
                if need_var:
                    centered = m - pivot
                    moment, second = moment + centered, second + centered * centered
                if need_max:
                    place_max = where_larger(m, largest, splat(np.int32(slot - begin)), place_max)
                    largest = where_larger(m, largest, m, largest)
                if need_min:
                    negated = zero - m
                    place_min = where_larger(negated, smallest, splat(np.int32(slot - begin)), place_min)
                    smallest = where_larger(negated, smallest, negated, smallest)
                for column in range(columns_of_weight):
                    store(sums, (column, 0), load(sums, (column, 0)) + weight[slot, column] * m)
            for a in range(len(codes)):
                if codes[a] < SIGNED:
                    value = isotropic(codes[a], count, total, moment, second, largest, smallest, zero, limit)
                else:
                    value = load(sums, (columns[a], 0))
                    if has_self and self_weight[i, columns[a]] != 0:
                        self_message = load(node, (i, c)) if len(node) else target_part + load_part(source, (i, c))
                        value = value + self_weight[i, columns[a]] * self_message
                    if codes[a] == ABSOLUTE:
                        if len(sign):
                            store(sign, (i, columns[a], c), sign_of(value, zero))
                        value = where_above(zero, value, zero - value, value)
                store(out, (i, a, c), value)
            if len(average):
                store(average, (i, c), moment / count)
            if len(at_max):
                store(at_max, (i, c), place_max)
            if len(at_min):
                store(at_min, (i, c), place_min)
