"""Backward pass on the CPU (Numba): gradients of messages by target, then summed by source or by edge type."""

import numpy as np

from dgn.kernels.numba.aggregate_forward import ABSOLUTE, MAX, MEAN, MIN, SIGNED, STD, SUM, VAR, block_start
from dgn.kernels.numba.jit import inline_jit, jit
from dgn.kernels.numba.simd import WIDTH, as_floating, load, load_part, splat, store, where_above, where_equal


@inline_jit
def gradient_of_code(code, value, result, count, zero):
    """Gradient of one isotropic output: a constant per message, and a factor of (m - mean)."""
    if code == SUM:
        return value, zero
    if code == MEAN:
        return value / count, zero
    if code == VAR:
        return zero, (value + value) / count
    if code == STD:
        return zero, where_above(result, zero, value / (result * count), zero)
    return zero, zero


@jit
def gradient_of_messages(
    first, last, source, target, table, weight, self_weight, row, pointer, neighbor, codes, columns, has_self,
    grad, out, at_max, at_min, sign, average, place, edge_grad, target_grad, node_grad,
):  # fmt: skip
    """Gradients of all messages into some nodes, written to ``edge_grad[place]``, and of target and node."""
    channels, columns_of_weight = grad.shape[2], weight.shape[1]
    zero = splat(grad.dtype.type(0))
    sums = np.empty((columns_of_weight, WIDTH), grad.dtype)
    for i in range(first, last):
        begin, end = pointer[i], pointer[i + 1]
        count = grad.dtype.type(max(end - begin, 1))
        for block in range((channels + WIDTH - 1) // WIDTH):
            c = block_start(block, channels)
            target_part = load_part(target, (i, c))
            constant, slope, grad_max, grad_min, mean = zero, zero, zero, zero, zero
            for column in range(columns_of_weight):
                store(sums, (column, 0), zero)
            for a in range(len(codes)):
                value = load(grad, (i, a, c))
                if codes[a] == MAX:
                    grad_max = grad_max + value
                elif codes[a] == MIN:
                    grad_min = grad_min + value
                elif codes[a] < SIGNED:
                    parts = gradient_of_code(codes[a], value, load(out, (i, a, c)), count, zero)
                    constant, slope = constant + parts[0], slope + parts[1]
                else:
                    if codes[a] == ABSOLUTE:
                        value = value * as_floating(load(sign, (i, columns[a], c)), value)
                    store(sums, (columns[a], 0), load(sums, (columns[a], 0)) + value)
            place_max, place_min = load_part(at_max, (i, c)), load_part(at_min, (i, c))
            if len(average) and end > begin:
                pivot = target_part + load_part(source, (neighbor[begin], c)) + load_part(table, (row[begin], c))
                mean = pivot + load(average, (i, c))
            grad_target = zero
            for slot in range(begin, end):
                value, index = constant, splat(np.int32(slot - begin))
                if len(average):
                    m = target_part + load_part(source, (neighbor[slot], c)) + load_part(table, (row[slot], c))
                    value = value + slope * (m - mean)
                if len(at_max):
                    value = value + where_equal(place_max, index, grad_max, zero)
                if len(at_min):
                    value = value + where_equal(place_min, index, grad_min, zero)
                for column in range(columns_of_weight):
                    value = value + weight[slot, column] * load(sums, (column, 0))
                store(edge_grad, (place[slot], c), value)
                grad_target = grad_target + value
            if len(target_grad):
                store(target_grad, (i, c), grad_target)
            if has_self:
                grad_node = zero
                for column in range(columns_of_weight):
                    grad_node = grad_node + self_weight[i, column] * load(sums, (column, 0))
                store(node_grad, (i, c), grad_node)


@jit
def sum_segments(first, last, values, pointer, out):
    """Sum rows ``pointer[j]`` to ``pointer[j + 1]`` of ``values`` into row j of ``out``."""
    channels, zero = values.shape[1], splat(values.dtype.type(0))
    for j in range(first, last):
        for block in range((channels + WIDTH - 1) // WIDTH):
            c, total = block_start(block, channels), zero
            for slot in range(pointer[j], pointer[j + 1]):
                total = total + load(values, (slot, c))
            store(out, (j, c), total)


@jit
def sum_types(first, last, values, place, row_type, out, rows):
    """Sum the rows ``place[r]`` of ``values`` by ``row_type[r]``, one partial sum per ``rows`` rows."""
    channels, zero = values.shape[1], splat(values.dtype.type(0))
    blocks = (channels + WIDTH - 1) // WIDTH
    sums = np.empty((out.shape[1], blocks * WIDTH), values.dtype)
    for part in range(first, last):
        sums[:] = 0
        for r in range(part * rows, min((part + 1) * rows, len(row_type))):
            for block in range(blocks):
                slot = row_type[r], block * WIDTH
                store(sums, slot, load(sums, slot) + load(values, (place[r], block_start(block, channels))))
        for k in range(out.shape[1]):
            for block in range(blocks):
                store(out, (part, k, block_start(block, channels)), load(sums, (k, block * WIDTH)) + zero)
