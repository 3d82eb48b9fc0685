"""Backward pass on the GPU (Triton): gradients of messages by target, then summed by source, without atomics."""

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
    load_messages,
    output_offset,
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
                here = output_offset(i, a, channels, num_channels, A, WIDTH)
                g = tl.load(grad + here, mask=inside, other=0.0).to(ACC)
                if CODES[a] == ABSOLUTE:
                    g *= tl.load(sign + (i * W + COLUMN) * num_channels + channels, mask=inside, other=0).to(ACC)
                total += g
    return total


@triton.jit
def isotropic_gradients(grad, out, i, channels, inside, num_channels, count, CODES: tl.constexpr,
                        A: tl.constexpr, WIDTH: tl.constexpr, ACC: tl.constexpr, BLOCK_C: tl.constexpr):  # fmt: skip
    """Gradients of isotropic outputs: a constant per edge, a factor of (m - mean), and those of maximum and minimum."""
    constant, slope = tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC)
    grad_max, grad_min = tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC)
    for a in tl.static_range(A):
        if CODES[a] < SIGNED:
            here = output_offset(i, a, channels, num_channels, A, WIDTH)
            g = tl.load(grad + here, mask=inside, other=0.0).to(ACC)
            if CODES[a] == SUM:
                constant += g
            elif CODES[a] == MEAN:
                constant += g / count
            elif CODES[a] == MAX:
                grad_max += g
            elif CODES[a] == MIN:
                grad_min += g
            elif CODES[a] == VAR:
                slope += 2.0 * g / count
            elif CODES[a] == STD:
                deviation = tl.load(out + here, mask=inside, other=0.0).to(ACC)
                slope += tl.where(deviation > 0, g / (tl.where(deviation > 0, deviation, 1.0) * count), 0.0)
    return constant, slope, grad_max, grad_min


@triton.jit
def load_place(place, inside, NEEDED: tl.constexpr, BLOCK_C: tl.constexpr):
    """Index of the largest or smallest message of a node, -1 where it is not needed."""
    index = tl.full([BLOCK_C], -1, tl.int32)
    if NEEDED:
        index = tl.load(place, mask=inside, other=-1)
    return index


@triton.jit
def add_extreme(g, offsets, place, grad_extreme, NEEDED: tl.constexpr):
    """The gradient of messages, with that of the maximum or minimum added at its index."""
    if NEEDED:
        g += tl.where(offsets[:, None] == place[None, :], grad_extreme[None, :], 0.0)
    return g


@triton.jit
def load_extra(extra, inside, HAS_EXTRA: tl.constexpr, ACC: tl.constexpr, BLOCK_C: tl.constexpr):
    """The term added to the gradient of the node, or 0."""
    value = tl.zeros([BLOCK_C], ACC)
    if HAS_EXTRA:
        value += tl.load(extra, mask=inside, other=0.0).to(ACC)
    return value


@triton.jit
def empty_sums(NUM_FEATURES: tl.constexpr, ACC: tl.constexpr, BLOCK_C: tl.constexpr):
    """Zeros for each edge feature."""
    sums = ()
    for _ in tl.static_range(NUM_FEATURES):
        sums = sums + (tl.zeros([BLOCK_C], ACC),)
    return sums


@triton.jit
def update_sums(sums, edge_features, edges, live, g, NUM_FEATURES: tl.constexpr):
    """Running sums of message gradients, weighted by each edge feature."""
    updated = ()
    for k in tl.static_range(NUM_FEATURES):
        feature = tl.load(edge_features + edges * NUM_FEATURES + k, mask=live, other=0.0).to(g.dtype)
        updated = updated + (sums[k] + tl.sum(feature[:, None] * g, axis=0),)
    return updated


@triton.jit
def store_sums(place, sums, inside, num_channels, NUM_FEATURES: tl.constexpr):
    """Write one row per edge feature."""
    for k in tl.static_range(NUM_FEATURES):
        tl.store(place + k * num_channels, sums[k], mask=inside)


@triton.jit
def gradient_of_messages(
    grad, out, source, target, table, row, weight, self_weight, pointer, neighbor, place, at_max, at_min, sign, average,
    edge_features, extra, edge_grad, target_grad, node_grad, features_grad, num_channels, source_stride, target_stride,
    target_grad_stride, CODES: tl.constexpr, COLUMNS: tl.constexpr, A: tl.constexpr, W: tl.constexpr,
    NEED_VAR: tl.constexpr, NEED_MAX: tl.constexpr, NEED_MIN: tl.constexpr, HAS_SOURCE: tl.constexpr,
    HAS_TARGET: tl.constexpr, HAS_TABLE: tl.constexpr, HAS_SELF: tl.constexpr, HAS_EXTRA: tl.constexpr,
    ACC: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr, WIDTH: tl.constexpr, NUM_FEATURES: tl.constexpr,
):  # fmt: skip
    """Gradients of all messages into one node, written to ``edge_grad[place]``, and of its target and node parts.

    ``features_grad`` gets their sums weighted by each edge feature.
    """
    i = tl.program_id(0).to(tl.int64)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channels < num_channels
    here = i * num_channels + channels
    begin = tl.load(pointer + i)
    degree, edge_features = (tl.load(pointer + i + 1) - begin).to(tl.int32), edge_features + begin * NUM_FEATURES
    row, neighbor, place, weight = row + begin, neighbor + begin, place + begin, weight + begin * W
    constant, slope, grad_max, grad_min = isotropic_gradients(
        grad, out, i, channels, inside, num_channels, tl.maximum(degree, 1).to(ACC), CODES, A, WIDTH, ACC, BLOCK_C
    )
    grad_along, grad_node = (), load_extra(extra + here, inside, HAS_EXTRA, ACC, BLOCK_C)
    for column in tl.static_range(W):
        along_column = directional_gradient(grad, sign, i, channels, inside, num_channels, column, CODES, COLUMNS, A, W,
                                   WIDTH, ACC, BLOCK_C)  # fmt: skip
        grad_along = grad_along + (along_column,)
        if HAS_SELF:
            grad_node += tl.load(self_weight + i * W + column).to(ACC) * along_column
    base, mean, pivot = tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC)
    if NEED_VAR:
        mean = tl.load(average + here, mask=inside, other=0.0).to(ACC)
        if HAS_TARGET:
            base += tl.load(target + i * target_stride + channels, mask=inside, other=0.0)
        if degree > 0:  # averages are relative to the first message
            pivot += tl.sum(load_messages(source, table, row, neighbor, tl.arange(0, 1), base, channels, inside,
                          num_channels, source_stride, edge_features, HAS_SOURCE, HAS_TABLE, NUM_FEATURES),
                          axis=0)  # fmt: skip
    place_max = load_place(at_max + here, inside, NEED_MAX, BLOCK_C)
    place_min = load_place(at_min + here, inside, NEED_MIN, BLOCK_C)
    total, feature_sums = tl.zeros([BLOCK_C], ACC), empty_sums(NUM_FEATURES, ACC, BLOCK_C)
    for start in range(0, degree, BLOCK_E):
        offsets = start + tl.arange(0, BLOCK_E)
        live = offsets < degree
        edges = tl.minimum(offsets, degree - 1)
        g = tl.zeros([BLOCK_E, BLOCK_C], ACC) + constant[None, :]
        if NEED_VAR:
            m = load_messages(source, table, row, neighbor, edges, base, channels, inside, num_channels,
                              source_stride, edge_features, HAS_SOURCE, HAS_TABLE, NUM_FEATURES)  # fmt: skip
            g += slope[None, :] * (m - pivot[None, :] - mean[None, :])
        g = add_extreme(g, offsets, place_max, grad_max, NEED_MAX)
        g = add_extreme(g, offsets, place_min, grad_min, NEED_MIN)
        for column in tl.static_range(W):
            w = tl.load(weight + edges * W + column).to(ACC)
            g += w[:, None] * grad_along[column][None, :]
        if HAS_TARGET:
            total += tl.sum(live.to(ACC)[:, None] * g, axis=0)
        feature_sums = update_sums(feature_sums, edge_features, edges, live, g, NUM_FEATURES)
        destination = tl.load(place + edges).to(tl.int64)
        address = edge_grad + destination[:, None] * num_channels + channels[None, :]
        tl.store(address, g, mask=live[:, None] & inside[None, :])
    to_features = features_grad + i * NUM_FEATURES * num_channels + channels
    store_sums(to_features, feature_sums, inside, num_channels, NUM_FEATURES)
    if HAS_TARGET:
        tl.store(target_grad + i * target_grad_stride + channels, total, mask=inside)
    if HAS_SELF:
        tl.store(node_grad + here, grad_node, mask=inside)
