"""The way back on the CPU (Numba): gradients of messages by target, then summed by source."""

import numpy as np

from dgn.aggregation.cpu_forward import MAX, MEAN, MIN, SIGNED, STD, SUM, VAR, add, compiled, read_message

# Rows of the gradients at a node, by how they reach its messages.
CONSTANT, SLOPE, LARGEST, SMALLEST = range(4)


@compiled
def gradients_at_node(grad, out, sign, i, codes, columns, count, parts, along):
    """Split the gradients of one node by how they reach its messages."""
    one = grad.dtype.type(1)
    for a in range(len(codes)):
        code, column = codes[a], columns[a]
        if code == SUM:
            add(parts, CONSTANT, one, grad[i], a)
        elif code == MEAN:
            add(parts, CONSTANT, one / count, grad[i], a)
        elif code == MAX:
            add(parts, LARGEST, one, grad[i], a)
        elif code == MIN:
            add(parts, SMALLEST, one, grad[i], a)
        elif code == VAR:
            add(parts, SLOPE, 2 * one / count, grad[i], a)
        elif code == STD:
            for c in range(grad.shape[2]):
                parts[SLOPE, c] += grad[i, a, c] / (out[i, a, c] * count) if out[i, a, c] > 0 else 0
        elif code == SIGNED:
            add(along, column, one, grad[i], a)
        else:
            for c in range(grad.shape[2]):
                along[column, c] += grad[i, a, c] * sign[i, column, c]


@compiled
def gradient_of_messages(
    first, last, source, target, table, weight, self_weight, row, pointer, neighbor, codes, columns, has_self,
    grad, out, at_max, at_min, sign, average, place, edge_grad, target_grad, node_grad,
):  # fmt: skip
    """Gradients of all messages into some nodes, written to ``edge_grad[place]``, and of their own parts."""
    channels, columns_of_weight = grad.shape[2], weight.shape[1]
    one, zero = grad.dtype.type(1), grad.dtype.type(0)
    m, pivot = np.empty((1, channels), grad.dtype), np.empty((1, channels), grad.dtype)
    parts, along = np.empty((4, channels), grad.dtype), np.empty((columns_of_weight, channels), grad.dtype)
    for i in range(first, last):
        begin, end = pointer[i], pointer[i + 1]
        parts[:] = 0
        along[:] = 0
        gradients_at_node(grad, out, sign, i, codes, columns, grad.dtype.type(max(end - begin, 1)), parts, along)
        if len(average) and end > begin:
            read_message(pivot, source, target, table, i, neighbor[begin], row[begin])
        if len(target_grad):
            target_grad[i] = 0
        for slot in range(begin, end):
            to = place[slot]
            for c in range(channels):
                edge_grad[to, c] = parts[CONSTANT, c]
            if len(average):
                read_message(m, source, target, table, i, neighbor[slot], row[slot])
                for c in range(channels):
                    edge_grad[to, c] += parts[SLOPE, c] * (m[0, c] - pivot[0, c] - average[i, c])
            if len(at_max):
                for c in range(channels):
                    edge_grad[to, c] += parts[LARGEST, c] if at_max[i, c] == slot - begin else zero
            if len(at_min):
                for c in range(channels):
                    edge_grad[to, c] += parts[SMALLEST, c] if at_min[i, c] == slot - begin else zero
            for column in range(columns_of_weight):
                add(edge_grad, to, weight[slot, column], along, column)
            if len(target_grad):
                add(target_grad, i, one, edge_grad, to)
        if has_self:
            node_grad[i] = 0
            for column in range(columns_of_weight):
                add(node_grad, i, self_weight[i, column], along, column)


@compiled
def sum_segments(first, last, values, pointer, out):
    """Sum rows ``pointer[j]`` to ``pointer[j + 1]`` of ``values`` into row j of ``out``."""
    one = values.dtype.type(1)
    for j in range(first, last):
        out[j] = 0
        for slot in range(pointer[j], pointer[j + 1]):
            add(out, j, one, values, slot)
