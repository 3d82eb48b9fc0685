"""Forward pass on the GPU (Triton): one program per target node reads each neighbour once."""

import triton
import triton.language as tl

SUM, MEAN, MAX, MIN = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2), tl.constexpr(3)
VAR, STD, SIGNED, ABSOLUTE = tl.constexpr(4), tl.constexpr(5), tl.constexpr(6), tl.constexpr(7)
SMALLEST_VARIANCE = tl.constexpr(1e-5)


@triton.jit
def load_messages(
    source, table, row, neighbor, edges, base, channels, inside, num_channels, source_stride, edge_features,
    HAS_SOURCE: tl.constexpr, HAS_TABLE: tl.constexpr, NUM_FEATURES: tl.constexpr,
):  # fmt: skip
    """Messages of a block of edges, [BLOCK_E, BLOCK_C]; ``base`` [BLOCK_C] is the part of the target.

    An edge adds its row of the table, or the product of its ``NUM_FEATURES`` features with the table.
    """
    m = tl.zeros([edges.shape[0], channels.shape[0]], base.dtype) + base[None, :]
    if HAS_SOURCE:
        j = tl.load(neighbor + edges).to(tl.int64)
        m += tl.load(source + j[:, None] * source_stride + channels[None, :], mask=inside[None, :], other=0.0)
    if HAS_TABLE:
        r = tl.load(row + edges).to(tl.int64)
        m += tl.load(table + r[:, None] * num_channels + channels[None, :], mask=inside[None, :], other=0.0)
    for k in tl.static_range(NUM_FEATURES):
        feature = tl.load(edge_features + edges * NUM_FEATURES + k).to(base.dtype)
        m += feature[:, None] * tl.load(table + k * num_channels + channels, mask=inside, other=0.0)[None, :]
    return m


@triton.jit
def larger(a, i, b, j):
    """The larger of two messages and its index; NaN compares above all numbers, and the first of equals wins."""
    first = (a > b) | (a != a) | ((a == b) & (i < j))
    return tl.where(first, a, b), tl.where(first, i, j)


@triton.jit
def larger_value(a, b):
    return tl.where((a > b) | (a != a), a, b)


@triton.jit
def update_extreme(m, start, largest, place, SAVE: tl.constexpr):
    """The largest message so far and its index among the edges of the node."""
    if SAVE:
        here = tl.broadcast_to((start + tl.arange(0, m.shape[0]))[:, None], m.shape)
        block_max, block_index = tl.reduce((m, here), 0, larger)
        return larger(largest, place, block_max, block_index)
    return larger_value(largest, tl.reduce(m, 0, larger_value)), place


@triton.jit
def load_self_message(source, node, base, inside, HAS_SOURCE: tl.constexpr, HAS_NODE: tl.constexpr,
                      HAS_SELF: tl.constexpr):  # fmt: skip
    """The message of a node to itself in a derivative; ``source`` and ``node`` point at its rows."""
    self_message = tl.zeros_like(base)
    if HAS_SELF:
        if HAS_NODE:
            self_message += tl.load(node, mask=inside, other=0.0)
        else:
            self_message += base
            if HAS_SOURCE:
                self_message += tl.load(source, mask=inside, other=0.0)
    return self_message


@triton.jit
def isotropic(CODE: tl.constexpr, total, variance, largest, smallest, degree, count):
    """One isotropic output; 0 for a node without neighbours."""
    value = total
    if CODE == MEAN:
        value = total / count
    elif CODE == MAX:
        value = tl.where(degree > 0, largest, 0.0)
    elif CODE == MIN:
        value = tl.where(degree > 0, 0.0 - smallest, 0.0)
    elif CODE == VAR:
        value = tl.where(variance < 0.0, 0.0, variance)  # propagates NaN
    elif CODE == STD:
        value = tl.where(variance <= SMALLEST_VARIANCE, 0.0, tl.sqrt(variance))  # propagates NaN
    return value


@triton.jit
def output_offset(i, a, channels, num_channels, A: tl.constexpr, WIDTH: tl.constexpr):
    """Offset of aggregator a of node i in [N, A, C] or, with ``WIDTH`` channels per tower, in [N, T, A, WIDTH]."""
    if WIDTH == 0:
        return (i * A + a) * num_channels + channels
    return i * A * num_channels + (channels // WIDTH) * (A * WIDTH) + a * WIDTH + channels % WIDTH


@triton.jit
def save_state(at_max, at_min, average, place_max, place_min, shift, inside,
               NEED_VAR: tl.constexpr, NEED_MAX: tl.constexpr, NEED_MIN: tl.constexpr):  # fmt: skip
    """Save the state of the backward pass; averages are relative to the first message."""
    if NEED_VAR:
        tl.store(average, shift, mask=inside)
    if NEED_MAX:
        tl.store(at_max, place_max, mask=inside)
    if NEED_MIN:
        tl.store(at_min, place_min, mask=inside)


@triton.jit
def store_outputs(
    out, sign, self_weight, along, self_message, total, variance, largest, smallest, degree, count, i, channels, inside,
    num_channels, CODES: tl.constexpr, COLUMNS: tl.constexpr, A: tl.constexpr, W: tl.constexpr, WIDTH: tl.constexpr,
    HAS_SELF: tl.constexpr, SAVE: tl.constexpr,
):  # fmt: skip
    """Write one row per aggregator, and the signs of absolute values."""
    for a in tl.static_range(A):
        if CODES[a] < SIGNED:
            value = isotropic(CODES[a], total, variance, largest, smallest, degree, count)
        else:
            value = along[COLUMNS[a]]
            if HAS_SELF:
                value += tl.load(self_weight + i * W + COLUMNS[a]).to(self_message.dtype) * self_message
            if CODES[a] == ABSOLUTE:
                if SAVE:
                    side = tl.where(value < 0, -1, tl.where(value > 0, 1, 0)).to(tl.int8)
                    tl.store(sign + (i * W + COLUMNS[a]) * num_channels + channels, side, mask=inside)
                value = tl.abs(value)
        tl.store(out + output_offset(i, a, channels, num_channels, A, WIDTH), value, mask=inside)


@triton.jit
def aggregate_nodes(
    source, target, table, row, edge_features, node, weight, self_weight, pointer, neighbor, out, at_max, at_min, sign,
    average, num_channels, source_stride, target_stride, node_stride, CODES: tl.constexpr, COLUMNS: tl.constexpr,
    A: tl.constexpr, W: tl.constexpr, WIDTH: tl.constexpr, NUM_FEATURES: tl.constexpr, NEED_SUM: tl.constexpr,
    NEED_VAR: tl.constexpr, NEED_MAX: tl.constexpr, NEED_MIN: tl.constexpr, HAS_SOURCE: tl.constexpr,
    HAS_TARGET: tl.constexpr, HAS_TABLE: tl.constexpr, HAS_NODE: tl.constexpr, HAS_SELF: tl.constexpr,
    SAVE: tl.constexpr, ACC: tl.constexpr, BLOCK_E: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """All outputs of one node and one block of channels."""
    i = tl.program_id(0).to(tl.int64)
    channels = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = channels < num_channels
    here = i * num_channels + channels
    begin = tl.load(pointer + i)
    degree = (tl.load(pointer + i + 1) - begin).to(tl.int32)
    row, neighbor = row + begin, neighbor + begin
    weight, edge_features = weight + begin * W, edge_features + begin * NUM_FEATURES
    base = tl.zeros([BLOCK_C], ACC)
    if HAS_TARGET:
        base += tl.load(target + i * target_stride + channels, mask=inside, other=0.0)
    total, shifted, squares = tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC), tl.zeros([BLOCK_C], ACC)
    largest, smallest = tl.full([BLOCK_C], float("-inf"), ACC), tl.full([BLOCK_C], float("-inf"), ACC)
    place_max, place_min = tl.full([BLOCK_C], -1, tl.int32), tl.full([BLOCK_C], -1, tl.int32)
    pivot = tl.zeros([BLOCK_C], ACC)
    if NEED_VAR:  # relative to the first message, against cancellation of a common offset
        if degree > 0:
            pivot = tl.sum(load_messages(source, table, row, neighbor, tl.arange(0, 1), base, channels, inside,
                          num_channels, source_stride, edge_features, HAS_SOURCE, HAS_TABLE, NUM_FEATURES),
                          axis=0)  # fmt: skip
    along = ()
    for _ in tl.static_range(W):
        along = along + (tl.zeros([BLOCK_C], ACC),)
    for start in range(0, degree, BLOCK_E):
        # Beyond the last edge, the last one is read again: extremes are unaffected, and sums weigh it with 0.
        edges = start + tl.arange(0, BLOCK_E)
        live = (edges < degree).to(ACC)
        edges = tl.minimum(edges, degree - 1)
        m = load_messages(source, table, row, neighbor, edges, base, channels, inside, num_channels,
                          source_stride, edge_features, HAS_SOURCE, HAS_TABLE, NUM_FEATURES)  # fmt: skip
        if NEED_SUM:
            total += tl.sum(live[:, None] * m, axis=0)
        if NEED_VAR:
            centered = m - pivot[None, :]
            shifted += tl.sum(live[:, None] * centered, axis=0)
            squares += tl.sum(live[:, None] * centered * centered, axis=0)
        if NEED_MAX:
            largest, place_max = update_extreme(m, start, largest, place_max, SAVE)
        if NEED_MIN:
            smallest, place_min = update_extreme(-m, start, smallest, place_min, SAVE)
        updated = ()
        for column in tl.static_range(W):
            w = tl.load(weight + edges * W + column).to(ACC) * live
            updated = updated + (along[column] + tl.sum(w[:, None] * m, axis=0),)
        along = updated
    count = tl.maximum(degree, 1).to(ACC)
    variance = squares / count - (shifted / count) * (shifted / count)
    self_message = load_self_message(source + i * source_stride + channels, node + i * node_stride + channels, base,
                                     inside, HAS_SOURCE, HAS_NODE, HAS_SELF)  # fmt: skip
    if SAVE:
        save_state(at_max + here, at_min + here, average + here, place_max, place_min, shifted / count, inside,
                   NEED_VAR, NEED_MAX, NEED_MIN)  # fmt: skip
    store_outputs(out, sign, self_weight, along, self_message, total, variance, largest, smallest, degree, count, i,
                  channels, inside, num_channels, CODES, COLUMNS, A, W, WIDTH, HAS_SELF, SAVE)  # fmt: skip
