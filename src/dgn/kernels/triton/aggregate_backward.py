"""The way back on the GPU (Triton): gradients of messages by target, then summed by source. No atomic additions."""

import triton
import triton.language as tl

from dgn.kernels.triton.aggregate_forward import (
    ABSOLUTE,
    MAX,
    MEAN,
    MIN,
    SIGNED,
    STD,
    SUM,
    VAR,
    find_output,
    load_messages,
)


@triton.jit
def directional_gradient(grad, sign, i, channels, inside, num_channels, COLUMN: tl.constexpr,
                         CODES: tl.constexpr, COLUMNS: tl.constexpr, A: tl.constexpr, W: tl.constexpr,
                         WIDTH: tl.constexpr, ACC: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Gradient of one directional sum, before the absolute value."""
    total = tl.zeros([BLOCK_C], ACC)
    for a in tl.static_range(A):
        if CODES[a] >= SIGNED:
            if COLUMNS[a] == COLUMN:
                here = find_output(i, a, channels, num_channels, A, WIDTH)
                g = tl.load(grad + here, mask=inside, other=0.0).to(ACC)
                if CODES[a] == ABSOLUTE:
                    g *= tl.load(sign + (i * W + COLUMN) * num_channels + channels, mask=inside, other=0).to(ACC)
                total += g
    return total


@triton.jit
def isotropic_gradients(grad, out, i, channels, inside, num_channels, count, CODES: tl.constexpr,
                        A: tl.constexpr, WIDTH: tl.constexpr, ACC: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Gradients of the rest: constant over edges, factor of (m - mean), and those of the largest and the smallest."""
    constant, slope = tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC)
    at_largest, at_smallest = tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC)
    for a in tl.static_range(A):
        if CODES[a] < SIGNED:
            here = find_output(i, a, channels, num_channels, A, WIDTH)
            g = tl.load(grad + here, mask=inside, other=0.0).to(ACC)
            if CODES[a] == SUM:
                constant += g
            elif CODES[a] == MEAN:
                constant += g / count
            elif CODES[a] == MAX:
                at_largest += g
            elif CODES[a] == MIN:
                at_smallest += g
            elif CODES[a] == VAR:
                slope += 2.0 * g / count
            elif CODES[a] == STD:
                deviation = tl.load(out + here, mask=inside, other=0.0).to(ACC)
                slope += tl.where(deviation > 0, g / (tl.where(deviation > 0, deviation, 1.0) * count), 0.0)
    return constant, slope, at_largest, at_smallest


@triton.jit
def load_place(place, inside, NEEDED: tl.constexpr, BLOCK_C: tl.constexpr):
    """Where the largest or smallest message of a node was, -1 for nowhere."""
    found = tl.full([BLOCK_C], -1, tl.int32)
    if NEEDED:
        found = tl.load(place, mask=inside, other=-1)
    return found


@triton.jit
def add_extreme(g, offsets, place, of_extreme, NEEDED: tl.constexpr):
    """The gradient of messages with that of the largest or smallest one added at its place."""
    if NEEDED:
        g += tl.where(offsets[:, None] == place[None, :], of_extreme[None, :], 0.0)
    return g


@triton.jit
def load_extra(extra, inside, HAS_EXTRA: tl.constexpr, ACC: tl.constexpr, BLOCK_C: tl.constexpr):
    """What is added to the gradient of the node, 0 for nothing."""
    value = tl.zeros([BLOCK_C], ACC)
    if HAS_EXTRA:
        value += tl.load(extra, mask=inside, other=0.0).to(ACC)
    return value


@triton.jit
def empty_sums(NUMBERS: tl.constexpr, ACC: tl.constexpr, BLOCK_C: tl.constexpr):
    """Zeros for each number of an edge."""
    sums = ()
    for _ in tl.static_range(NUMBERS):
        sums = sums + (tl.zeros([BLOCK_C], ACC),)
    return sums


@triton.jit
def grow_sums(sums, number, edges, live, g, NUMBERS: tl.constexpr):
    """The sums of gradients of messages so far, one for each number of an edge, weighted by it."""
    grown = ()
    for k in tl.static_range(NUMBERS):
        times = tl.load(number + edges * NUMBERS + k, mask=live, other=0.0).to(g.dtype)
        grown = grown + (sums[k] + tl.sum(times[:, None] * g, axis=0),)
    return grown


@triton.jit
def store_sums(place, sums, inside, num_channels, NUMBERS: tl.constexpr):
    """Write a row for each number."""
    for k in tl.static_range(NUMBERS):
        tl.store(place + k * num_channels, sums[k], mask=inside)


@triton.jit
def gradient_of_messages(
    grad, out, source, target, table, row, weight, self_weight, pointer, neighbor, place, at_max, at_min, sign, average,
    number, extra, edge_grad, target_grad, node_grad, number_grad, num_channels, source_stride, target_stride,
    target_grad_stride, CODES: tl.constexpr, COLUMNS: tl.constexpr, A: tl.constexpr, W: tl.constexpr,
    NEED_VAR: tl.constexpr, NEED_MAX: tl.constexpr, NEED_MIN: tl.constexpr, HAS_SOURCE: tl.constexpr,
    HAS_TARGET: tl.constexpr, HAS_TABLE: tl.constexpr, HAS_SELF: tl.constexpr, HAS_EXTRA: tl.constexpr,
    ACC: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, WIDTH: tl.constexpr, NUMBERS: tl.constexpr,
):  # fmt: skip
    """Gradients of all messages into one node, written to ``edge_grad[place]``, and of its own parts.

    ``number_grad`` gets their sums weighted by each of the numbers of an edge.
    """
    i = tl.program_id(0).to(tl.int64)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channels < num_channels
    here = i * num_channels + channels
    begin = tl.load(pointer + i)
    degree, number = (tl.load(pointer + i + 1) - begin).to(tl.int32), number + begin * NUMBERS
    row, neighbor, place, weight = row + begin, neighbor + begin, place + begin, weight + begin * W
    constant, slope, of_largest, of_smallest = isotropic_gradients(
        grad, out, i, channels, inside, num_channels, tl.maximum(degree, 1).to(ACC), CODES, A, WIDTH, ACC, BLOCK_C
    )
    along, itself = (), load_extra(extra + here, inside, HAS_EXTRA, ACC, BLOCK_C)
    for column in tl.static_range(W):
        one = directional_gradient(grad, sign, i, channels, inside, num_channels, column, CODES, COLUMNS, A, W,
                                   WIDTH, ACC, BLOCK_C)  # fmt: skip
        along = along + (one,)
        if HAS_SELF:
            itself += tl.load(self_weight + i * W + column).to(ACC) * one
    base, mean, pivot = tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC)
    if NEED_VAR:
        mean = tl.load(average + here, mask=inside, other=0.0).to(ACC)
        if HAS_TARGET:
            base += tl.load(target + i * target_stride + channels, mask=inside, other=0.0)
        if degree > 0:  # averages are kept relative to the first message
            pivot += tl.sum(load_messages(source, table, row, neighbor, tl.arange(0, 1), base, channels, inside,
                          num_channels, source_stride, number, HAS_SOURCE, HAS_TABLE, NUMBERS), axis=0)  # fmt: skip
    place_max = load_place(at_max + here, inside, NEED_MAX, BLOCK_C)
    place_min = load_place(at_min + here, inside, NEED_MIN, BLOCK_C)
    total, by_number = tl.zeros([BLOCK_C], ACC), empty_sums(NUMBERS, ACC, BLOCK_C)
    for start in range(0, degree, BLOCK_E):
        offsets = start + tl.arange(0, BLOCK_E)
        live = offsets < degree
        edges = tl.minimum(offsets, degree - 1)
        g = tl.zeros([BLOCK_E, BLOCK_C], ACC) + constant[None, :]
        if NEED_VAR:
            m = load_messages(source, table, row, neighbor, edges, base, channels, inside, num_channels,
                              source_stride, number, HAS_SOURCE, HAS_TABLE, NUMBERS)  # fmt: skip
            g += slope[None, :] * (m - pivot[None, :] - mean[None, :])
        g = add_extreme(g, offsets, place_max, of_largest, NEED_MAX)
        g = add_extreme(g, offsets, place_min, of_smallest, NEED_MIN)
        for column in tl.static_range(W):
            w = tl.load(weight + edges * W + column).to(ACC)
            g += w[:, None] * along[column][None, :]
        if HAS_TARGET:
            total += tl.sum(live.to(ACC)[:, None] * g, axis=0)
        by_number = grow_sums(by_number, number, edges, live, g, NUMBERS)
        to = tl.load(place + edges).to(tl.int64)
        tl.store(edge_grad + to[:, None] * num_channels + channels[None, :], g, mask=live[:, None] & inside[None, :])
    store_sums(number_grad + i * NUMBERS * num_channels + channels, by_number, inside, num_channels, NUMBERS)
    if HAS_TARGET:
        tl.store(target_grad + i * target_grad_stride + channels, total, mask=inside)
    if HAS_SELF:
        tl.store(node_grad + here, itself, mask=inside)
