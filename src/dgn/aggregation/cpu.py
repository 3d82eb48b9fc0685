"""One pass on the CPU (Numba): parallel over targets, vectorised over channels."""

from typing import Any

import numpy as np
import torch
from numba import njit
from torch import Tensor

from dgn.aggregation.call import Call, Saved
from dgn.aggregation.plan import Code
from dgn.threads import for_chunks

DTYPES = (torch.float32, torch.float64)
SMALLEST = 256  # nodes in a piece of work
SUM, MEAN, MAX, MIN, VAR, STD, SIGNED, ABSOLUTE = (int(code) for code in Code)
SMALLEST_VARIANCE = 1e-5
_compiled = njit(cache=True, nogil=True, error_model="numpy")


def forward(call: Call) -> Saved:
    """Run the plan on the CPU."""
    saved = Saved(*call.empty_outputs())
    arrays = *_arrays(call), _array(call.node, call), *(part.numpy() for part in saved)
    for_chunks(lambda begin, end: _forward(begin, end, *arrays), call.num_nodes, SMALLEST)
    return saved


def backward(call: Call, grad: Tensor, saved: Saved) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of messages (by source if there is one, else in the order of edges), source, target and node."""
    grads = edge_grad, source_grad, target_grad, node_grad = call.empty_gradients()
    place = call.order if call.source is None else call.place
    arrays = *_arrays(call), *(part.numpy() for part in (grad, *saved, place, edge_grad, target_grad, node_grad))
    for_chunks(lambda begin, end: _backward(begin, end, *arrays), call.num_nodes, SMALLEST)
    if call.source is not None:
        by_source = edge_grad.numpy(), call.source_pointer.numpy(), source_grad.numpy()
        for_chunks(lambda begin, end: _sum_segments(begin, end, *by_source), len(source_grad), SMALLEST)
    return grads


def _arrays(call: Call) -> tuple[Any, ...]:
    parts = [_array(part, call) for part in (call.source, call.target, call.table)]
    weights = [part.to(call.example.dtype).numpy() for part in (call.weight, call.self_weight)]
    layout = [part.numpy() for part in (call.table_row, call.pointer, call.neighbor)]
    return (*parts, *weights, *layout, np.array(call.codes), np.array(call.columns), call.has_self)


def _array(part: Tensor | None, call: Call) -> Any:
    """A missing part is an array without rows."""
    return (call.example.new_empty(0, call.example.size(1)) if part is None else part).numpy()


@_compiled
def _has(codes, first, second):
    for code in codes:
        if code in (first, second):
            return True
    return False


@_compiled
def _message(m, source, target, table, i, j, r):
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


@_compiled
def _add(total, factor, m):
    for c in range(len(m)):
        total[c] += factor * m[c]


@_compiled
def _grow_extreme(largest, place, m, factor, offset):
    """Keep the largest of ``factor * m`` and its place; the first of equals stays."""
    for c in range(len(m)):
        value = factor * m[c]
        better = value > largest[c]
        largest[c] = value if better else largest[c]
        place[c] = offset if better else place[c]


@_compiled
def _grow_variance(shifted, squares, pivot, m):
    for c in range(len(m)):
        away = m[c] - pivot[c]
        shifted[c] += away
        squares[c] += away * away


@_compiled
def _finish_isotropic(code, out, count, total, shifted, squares, largest, smallest):
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


@_compiled
def _finish_directional(code, out, along, self_weight, source, target, node, i, sign, has_self):
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


@_compiled
def _forward(first, last, source, target, table, weight, self_weight, row, pointer, neighbor, codes, columns,
             has_self, node, out, at_max, at_min, sign, average):  # fmt: skip
    channels, columns_of_weight = out.shape[2], weight.shape[1]
    need_sum, need_var = _has(codes, SUM, MEAN), _has(codes, VAR, STD)
    need_max, need_min = _has(codes, MAX, MAX), _has(codes, MIN, MIN)
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
            _message(m, source, target, table, i, neighbor[slot], row[slot])
            if need_sum:
                _add(total, 1, m)
            if need_var:
                if slot == begin:
                    pivot[:] = m
                _grow_variance(shifted, squares, pivot, m)
            if need_max:
                _grow_extreme(largest, places[0], m, 1, slot - begin)
            if need_min:
                _grow_extreme(smallest, places[1], m, -1, slot - begin)
            for column in range(columns_of_weight):
                _add(along[column], weight[slot, column], m)
        count = max(end - begin, 1)
        for a in range(len(codes)):
            if codes[a] < SIGNED:
                _finish_isotropic(codes[a], out[i, a], count, total, shifted, squares, largest, smallest)
            else:
                k = columns[a]
                _finish_directional(codes[a], out[i, a], along[k], self_weight[i, k], source, target, node, i,
                                    sign[i, k] if len(sign) else no_sign, has_self)  # fmt: skip
        if len(average):
            average[i] = shifted / count
        if len(at_max):
            at_max[i] = places[0]
        if len(at_min):
            at_min[i] = places[1]


@_compiled
def _gradients_at_node(grad, out, sign, codes, columns, count, constant, slope, of_largest, of_smallest, along):
    """Split the gradients of one node by how they reach its messages."""
    for a in range(len(codes)):
        code, g = codes[a], grad[a]
        if code == SUM:
            _add(constant, 1, g)
        elif code == MEAN:
            _add(constant, 1 / count, g)
        elif code == MAX:
            of_largest[:] = g
        elif code == MIN:
            of_smallest[:] = g
        elif code == VAR:
            _add(slope, 2 / count, g)
        elif code == STD:
            for c in range(len(g)):
                slope[c] += g[c] / (out[a, c] * count) if out[a, c] > 0 else 0.0
        elif code == SIGNED:
            _add(along[columns[a]], 1, g)
        else:
            for c in range(len(g)):
                along[columns[a], c] += g[c] * sign[columns[a], c]


@_compiled
def _backward(first, last, source, target, table, weight, self_weight, row, pointer, neighbor, codes, columns, has_self,
              grad, out, at_max, at_min, sign, average, place, edge_grad, target_grad, node_grad):  # fmt: skip
    channels, columns_of_weight = grad.shape[2], weight.shape[1]
    m, pivot = np.empty(channels, grad.dtype), np.empty(channels, grad.dtype)
    rows = np.empty((5, channels), grad.dtype)
    constant, slope, of_largest, of_smallest, total = rows[0], rows[1], rows[2], rows[3], rows[4]
    along = np.empty((columns_of_weight, channels), grad.dtype)
    for i in range(first, last):
        begin, end = pointer[i], pointer[i + 1]
        rows[:] = 0
        along[:] = 0
        _gradients_at_node(grad[i], out[i], sign[i] if len(sign) else sign[:0, 0], codes, columns,
                           max(end - begin, 1), constant, slope, of_largest, of_smallest, along)  # fmt: skip
        if len(average) and end > begin:
            _message(pivot, source, target, table, i, neighbor[begin], row[begin])
        for slot in range(begin, end):
            g = edge_grad[place[slot]]
            g[:] = constant
            if len(average):
                _message(m, source, target, table, i, neighbor[slot], row[slot])
                for c in range(channels):
                    g[c] += slope[c] * (m[c] - pivot[c] - average[i, c])
            if len(at_max):
                for c in range(channels):
                    g[c] += of_largest[c] if at_max[i, c] == slot - begin else 0
            if len(at_min):
                for c in range(channels):
                    g[c] += of_smallest[c] if at_min[i, c] == slot - begin else 0
            for column in range(columns_of_weight):
                _add(g, weight[slot, column], along[column])
            _add(total, 1, g)
        if len(target_grad):
            target_grad[i] = total
        if has_self:
            node_grad[i] = 0
            for column in range(columns_of_weight):
                _add(node_grad[i], self_weight[i, column], along[column])


@_compiled
def _sum_segments(first, last, values, pointer, out):
    for j in range(first, last):
        out[j] = 0
        for slot in range(pointer[j], pointer[j + 1]):
            _add(out[j], 1, values[slot])
