"""The way back on the CPU (Numba): gradients of messages by target, then summed by source."""

import numpy as np

from dgn.aggregation.cpu_forward import MAX, MEAN, MIN, SIGNED, STD, SUM, VAR, add, compiled, read_message


@compiled
def gradients_at_node(grad, out, sign, codes, columns, count, constant, slope, of_largest, of_smallest, along):
    """Split the gradients of one node by how they reach its messages."""
    for a in range(len(codes)):
        code, g = codes[a], grad[a]
        if code == SUM:
            add(constant, 1, g)
        elif code == MEAN:
            add(constant, 1 / count, g)
        elif code == MAX:
            of_largest[:] = g
        elif code == MIN:
            of_smallest[:] = g
        elif code == VAR:
            add(slope, 2 / count, g)
        elif code == STD:
            for c in range(len(g)):
                slope[c] += g[c] / (out[a, c] * count) if out[a, c] > 0 else 0.0
        elif code == SIGNED:
            add(along[columns[a]], 1, g)
        else:
            for c in range(len(g)):
                along[columns[a], c] += g[c] * sign[columns[a], c]


@compiled
def gradient_of_messages(first, last, source, target, table, weight, self_weight, row, pointer, neighbor, codes, columns,
                         has_self, grad, out, at_max, at_min, sign, average, place, edge_grad, target_grad, node_grad):  # fmt: skip
    channels, columns_of_weight = grad.shape[2], weight.shape[1]
    m, pivot = np.empty(channels, grad.dtype), np.empty(channels, grad.dtype)
    rows = np.empty((5, channels), grad.dtype)
    constant, slope, of_largest, of_smallest, total = rows[0], rows[1], rows[2], rows[3], rows[4]
    along = np.empty((columns_of_weight, channels), grad.dtype)
    for i in range(first, last):
        begin, end = pointer[i], pointer[i + 1]
        rows[:] = 0
        along[:] = 0
        gradients_at_node(grad[i], out[i], sign[i] if len(sign) else sign[:0, 0], codes, columns,
                           max(end - begin, 1), constant, slope, of_largest, of_smallest, along)  # fmt: skip
        if len(average) and end > begin:
            read_message(pivot, source, target, table, i, neighbor[begin], row[begin])
        for slot in range(begin, end):
            g = edge_grad[place[slot]]
            g[:] = constant
            if len(average):
                read_message(m, source, target, table, i, neighbor[slot], row[slot])
                for c in range(channels):
                    g[c] += slope[c] * (m[c] - pivot[c] - average[i, c])
            if len(at_max):
                for c in range(channels):
                    g[c] += of_largest[c] if at_max[i, c] == slot - begin else 0
            if len(at_min):
                for c in range(channels):
                    g[c] += of_smallest[c] if at_min[i, c] == slot - begin else 0
            for column in range(columns_of_weight):
                add(g, weight[slot, column], along[column])
            add(total, 1, g)
        if len(target_grad):
            target_grad[i] = total
        if has_self:
            node_grad[i] = 0
            for column in range(columns_of_weight):
                add(node_grad[i], self_weight[i, column], along[column])


@compiled
def sum_segments(first, last, values, pointer, out):
    for j in range(first, last):
        out[j] = 0
        for slot in range(pointer[j], pointer[j + 1]):
            add(out[j], 1, values[slot])
