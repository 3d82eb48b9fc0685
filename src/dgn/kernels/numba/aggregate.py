"""Aggregation on the CPU (Numba): each target node reads its neighbours once, sixteen channels at a time.

The backward pass computes gradients of messages by target, then sums them by source or by edge type. Launchers come
first, then the kernels of both passes.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dgn.kernels.aggregation import SMALLEST_VARIANCE, Code, KernelArgs, SavedTensors
from dgn.kernels.numba.jit import inline_jit, jit
from dgn.kernels.numba.simd import (
    WIDTH,
    as_floating,
    load,
    load_part,
    splat,
    sqrt,
    store,
    where_above,
    where_equal,
    where_larger,
)
from dgn.kernels.numba.threads import for_chunks

SUM, MEAN, MAX, MIN, VAR, STD, SIGNED, ABSOLUTE = (int(code) for code in Code)
SMALLEST = 1 << 17  # message elements per chunk; below, handing it to a thread takes as long as the work
ROWS = 1024  # per partial sum by type, independent of the number of threads


def forward(call: KernelArgs) -> SavedTensors:
    """All outputs of the plan and the tensors saved for the backward pass, on the CPU."""
    if call.example.size(1) < WIDTH:
        return SavedTensors(*(_unpad(part, call) for part in forward(_pad_args(call))))
    saved = SavedTensors(*call.empty_outputs())
    arrays = *_arrays(call), _array(call.node, call), *(part.numpy() for part in saved)
    for_chunks(lambda begin, end: aggregate_nodes(begin, end, *arrays), call.num_nodes, _smallest(call))
    return saved


def backward(call: KernelArgs, grad: Tensor, saved: SavedTensors) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Gradients of messages (in the order of ``call.gradient_order``), source, target and node."""
    if call.example.size(1) < WIDTH:
        wide = backward(_pad_args(call), _pad(grad), SavedTensors(*map(_pad, saved)))
        return _unpad(wide[0], call), _unpad(wide[1], call), _unpad(wide[2], call), _unpad(wide[3], call)
    edge_grad, source_grad, target_grad, node_grad = call.empty_gradients(cleared=False)
    edge_grad[int(call.pointer[-1]) :] = 0  # padding, which comes last
    written = grad, *saved, call.gradient_order, edge_grad, target_grad, node_grad
    arrays = *_arrays(call), *(part.numpy() for part in written)
    for_chunks(lambda begin, end: gradient_of_messages(begin, end, *arrays), call.num_nodes, _smallest(call))
    if call.source is not None:
        by_source = edge_grad.numpy(), call.source_pointer.numpy(), source_grad.numpy()
        for_chunks(lambda begin, end: sum_segments(begin, end, *by_source), len(source_grad), _smallest(call))
    if call.self_is_source:
        source_grad += node_grad
    return edge_grad, source_grad, target_grad, node_grad


def sum_by_type(values: Tensor, row_type: Tensor, num_types: int, place: Tensor) -> Tensor:
    """Sums of the rows of each type: ``[R, C] -> [num_types, C]``; row r is ``values[place[r]]``."""
    if values.size(1) < WIDTH:
        return sum_by_type(_pad(values), row_type, num_types, place)[:, : values.size(1)].contiguous()
    parts = values.new_empty(-(-row_type.size(0) // ROWS), num_types, values.size(1))
    arrays = values.numpy(), place.numpy(), row_type.numpy(), parts.numpy(), ROWS
    for_chunks(lambda begin, end: sum_types(begin, end, *arrays), len(parts), 4)
    return parts.sum(dim=0)


def _smallest(call: KernelArgs) -> int:
    """The smallest number of nodes in a chunk."""
    return -(-SMALLEST * call.num_nodes // max(1, call.neighbor.size(0) * call.example.size(1)))


def _arrays(call: KernelArgs) -> tuple[Any, ...]:
    """The inputs of both passes."""
    parts = [_array(part, call) for part in (call.source, call.target, call.table)]
    weights = [part.to(call.example.dtype).numpy() for part in (call.weight, call.self_weight)]
    layout = [part.numpy() for part in (call.table_row, call.pointer, call.neighbor)]
    return (*parts, *weights, *layout, np.array(call.codes), np.array(call.columns), call.has_self)


def _array(part: Tensor | None, call: KernelArgs) -> Any:
    """The part as an array, without rows if it is missing."""
    return (call.example.new_empty(0, call.example.size(1)) if part is None else part).numpy()


def _pad(part: Tensor) -> Tensor:
    """The part with its channels zero-padded to the width of the kernels."""
    return torch.nn.functional.pad(part, (0, WIDTH - part.size(-1)))


def _pad_args(call: KernelArgs) -> KernelArgs:
    parts = (None if part is None else _pad(part) for part in (call.source, call.target, call.table, call.node))
    source, target, table, node = parts
    return call._replace(source=source, target=target, table=table, node=node)


def _unpad(part: Tensor, call: KernelArgs) -> Tensor:
    return part[..., : call.example.size(1)].contiguous()


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
