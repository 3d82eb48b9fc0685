"""The epilogue of a layer on the GPU (Triton): sum over scalers, batch norm, ReLU, residual and dropout in two passes.

Statistics of blocks of rows are combined in a fixed order. Rows of padding have ``node_mask`` 0.
"""

import triton
import triton.language as tl


@triton.jit
def load_rows(values, rows, columns, mask, num_channels):
    return tl.load(values + rows[:, None] * num_channels + columns[None, :], mask=mask, other=0.0).to(tl.float32)


@triton.jit
def load_channels(values, columns, inside):
    return tl.load(values + columns, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def load_mask(node_mask, rows, num_rows, HAS_REAL: tl.constexpr):
    """1 for rows of real nodes, 0 for padding and beyond the end."""
    inside = rows < num_rows
    if HAS_REAL:
        return tl.load(node_mask + rows, mask=inside, other=0.0).to(tl.float32)
    return inside.to(tl.float32)


@triton.jit
def combine_rows(
    scaled_out, self_out, scale, bias, graph_norm, node_mask, y, block_mean, block_spread, block_count, num_rows,
    num_channels, width, rows_per_block, S: tl.constexpr, HAS_OWN: tl.constexpr, HAS_SCALE: tl.constexpr,
    HAS_SIZE: tl.constexpr, HAS_REAL: tl.constexpr, STATISTICS: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Sum over scalers, plus the self term and the bias, times the graph norm; mean and spread of each block."""
    block = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    # A channel c of tower t stands at (t * S + s) * width + c for scaler s.
    place = (columns // width) * S * width + columns % width
    offset = tl.load(bias + columns, mask=inside, other=0.0).to(tl.float32)
    count = 0.0
    mean, spread = tl.zeros([BLOCK_C], tl.float32), tl.zeros([BLOCK_C], tl.float32)
    for start in range(0, rows_per_block, BLOCK_N):
        rows = (block * rows_per_block + start + tl.arange(0, BLOCK_N)).to(tl.int64)
        mask = (rows < num_rows)[:, None] & inside[None, :]
        total = tl.zeros([BLOCK_N, BLOCK_C], tl.float32) + offset[None, :]
        for s in tl.static_range(S):
            part = load_rows(scaled_out + s * width, rows, place, mask, S * num_channels)
            if HAS_SCALE:
                part *= tl.load(scale + rows * S + s, mask=rows < num_rows, other=0.0).to(tl.float32)[:, None]
            total += part
        if HAS_OWN:
            total += load_rows(self_out, rows, columns, mask, num_channels)
        if HAS_SIZE:
            total *= tl.load(graph_norm + rows, mask=rows < num_rows, other=0.0).to(tl.float32)[:, None]
        tl.store(y + rows[:, None] * num_channels + columns[None, :], total, mask=mask)
        if STATISTICS:
            weight = load_mask(node_mask, rows, num_rows, HAS_REAL)
            num_new = tl.sum(weight)
            new_mean = tl.sum(weight[:, None] * total, axis=0) / tl.maximum(num_new, 1.0)
            centered = total - new_mean[None, :]
            new_spread = tl.sum(weight[:, None] * centered * centered, axis=0)
            num_joint = tl.maximum(count + num_new, 1.0)
            step = new_mean - mean
            spread += new_spread + step * step * (count * num_new / num_joint)
            mean += step * (num_new / num_joint)
            count += num_new
    if STATISTICS:
        tl.store(block_mean + block * num_channels + columns, mean, mask=inside)
        tl.store(block_spread + block * num_channels + columns, spread, mask=inside)
        tl.store(block_count + block, count)


@triton.jit
def scale_rows(
    grad, scale, scaled_out_grad, self_out_grad, num_rows, num_channels, width, self_out_stride, rows_per_block,
    S: tl.constexpr, HAS_OWN: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Gradients of the scaled outputs and of the self term of :func:`combine_rows` without graph norm."""
    block = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    place = (columns // width) * S * width + columns % width
    for start in range(0, rows_per_block, BLOCK_N):
        rows = (block * rows_per_block + start + tl.arange(0, BLOCK_N)).to(tl.int64)
        mask = (rows < num_rows)[:, None] & (columns < num_channels)[None, :]
        here = load_rows(grad, rows, columns, mask, num_channels)
        for s in tl.static_range(S):
            factor = tl.load(scale + rows * S + s, mask=rows < num_rows, other=0.0).to(tl.float32)
            to = scaled_out_grad + s * width + rows[:, None] * (S * num_channels) + place[None, :]
            tl.store(to, here * factor[:, None], mask=mask)
        if HAS_OWN:
            tl.store(self_out_grad + rows[:, None] * self_out_stride + columns[None, :], here, mask=mask)


@triton.jit
def find_statistics(
    block_mean, block_spread, block_count, running_mean, running_var, tracked, mean_out, inverse_out, total_out,
    num_channels, num_blocks, eps, momentum, BLOCK_B: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Mean and inverse deviation of all rows from those of blocks; running statistics move if any row is real."""
    columns = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    blocks = tl.arange(0, BLOCK_B)
    mask = (blocks < num_blocks)[:, None] & inside[None, :]
    counts = tl.load(block_count + blocks, mask=blocks < num_blocks, other=0.0)
    num_real = tl.sum(counts)
    total = tl.maximum(num_real, 1.0)
    means = load_rows(block_mean, blocks, columns, mask, num_channels)
    mean = tl.sum(means * counts[:, None], axis=0) / total
    centered = means - mean[None, :]
    spreads = load_rows(block_spread, blocks, columns, mask, num_channels) + centered * centered * counts[:, None]
    variance = tl.sum(spreads, axis=0) / total
    tl.store(mean_out + columns, mean, mask=inside)
    tl.store(inverse_out + columns, 1.0 / tl.sqrt(variance + eps), mask=inside)
    old_mean, old_var = load_channels(running_mean, columns, inside), load_channels(running_var, columns, inside)
    unbiased = variance * (total / tl.maximum(total - 1.0, 1.0))
    rate = momentum * tl.minimum(num_real, 1.0)
    tl.store(running_mean + columns, old_mean + rate * (mean - old_mean), mask=inside)
    tl.store(running_var + columns, old_var + rate * (unbiased - old_var), mask=inside)
    if tl.program_id(0) == 0:
        tl.store(total_out, total)
        tl.store(tracked, tl.load(tracked) + 1)


@triton.jit
def normalize_rows(
    y, mean_in, inverse_in, gamma_in, beta_in, residual, dropout_mask, out, num_rows, num_channels, rows_per_block,
    keep_factor, RELU: tl.constexpr, HAS_RESIDUAL: tl.constexpr, HAS_KEPT: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Batch norm, ReLU, residual and dropout of a block of rows."""
    block = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    factor = load_channels(inverse_in, columns, inside) * load_channels(gamma_in, columns, inside)
    shift = load_channels(beta_in, columns, inside) - load_channels(mean_in, columns, inside) * factor
    for start in range(0, rows_per_block, BLOCK_N):
        rows = (block * rows_per_block + start + tl.arange(0, BLOCK_N)).to(tl.int64)
        mask = (rows < num_rows)[:, None] & inside[None, :]
        value = load_rows(y, rows, columns, mask, num_channels) * factor[None, :] + shift[None, :]
        if RELU:
            value = tl.where(value < 0.0, 0.0, value)  # propagates NaN
        if HAS_RESIDUAL:
            value += load_rows(residual, rows, columns, mask, num_channels)
        if HAS_KEPT:
            value *= load_rows(dropout_mask, rows, columns, mask, num_channels) * keep_factor
        tl.store(out + rows[:, None] * num_channels + columns[None, :], value, mask=mask)


@triton.jit
def load_gradient(grad, y, dropout_mask, rows, columns, mask, num_channels, mean, inverse, gamma, beta, keep_factor,
                  RELU: tl.constexpr, HAS_KEPT: tl.constexpr):  # fmt: skip
    """The gradient before dropout, that before the ReLU, and the normalised rows."""
    grad_out = load_rows(grad, rows, columns, mask, num_channels)
    if HAS_KEPT:
        grad_out *= load_rows(dropout_mask, rows, columns, mask, num_channels) * keep_factor
    unit = (load_rows(y, rows, columns, mask, num_channels) - mean[None, :]) * inverse[None, :]
    grad_norm = grad_out
    if RELU:
        grad_norm = tl.where(unit * gamma[None, :] + beta[None, :] > 0.0, grad_out, 0.0)
    return grad_out, grad_norm, unit


@triton.jit
def sum_gradients(
    grad, y, dropout_mask, graph_norm, node_mask, mean_in, inverse_in, gamma_in, beta_in, parts, num_rows, num_channels,
    rows_per_block, num_blocks, keep_factor, RELU: tl.constexpr, HAS_KEPT: tl.constexpr, HAS_SIZE: tl.constexpr,
    HAS_REAL: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Sums over each block of rows that gradients need, in ``parts`` [5, blocks, C].

    With g the gradient before the ReLU, u the normalised rows, r the node mask and s the graph norm: g, g u, s g, s r,
    s r u.
    """
    block = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    mean, inverse = load_channels(mean_in, columns, inside), load_channels(inverse_in, columns, inside)
    gamma, beta = load_channels(gamma_in, columns, inside), load_channels(beta_in, columns, inside)
    grad_beta, grad_gamma = tl.zeros([BLOCK_C], tl.float32), tl.zeros([BLOCK_C], tl.float32)
    normed, norms, normed_unit = grad_beta, grad_beta, grad_beta
    for start in range(0, rows_per_block, BLOCK_N):
        rows = (block * rows_per_block + start + tl.arange(0, BLOCK_N)).to(tl.int64)
        mask = (rows < num_rows)[:, None] & inside[None, :]
        _, grad_norm, unit = load_gradient(grad, y, dropout_mask, rows, columns, mask, num_channels, mean, inverse,
                                           gamma, beta, keep_factor, RELU, HAS_KEPT)  # fmt: skip
        counts = load_mask(node_mask, rows, num_rows, HAS_REAL)
        grad_beta += tl.sum(grad_norm, axis=0)
        grad_gamma += tl.sum(grad_norm * unit, axis=0)
        factor = tl.zeros([BLOCK_N], tl.float32) + 1.0
        if HAS_SIZE:
            factor = tl.load(graph_norm + rows, mask=rows < num_rows, other=0.0).to(tl.float32)
        normed += tl.sum(grad_norm * factor[:, None], axis=0)
        norms += tl.sum(counts * factor)
        normed_unit += tl.sum(tl.where(mask, unit, 0.0) * (counts * factor)[:, None], axis=0)
    here = parts + block * num_channels + columns
    part_stride = num_blocks * num_channels
    tl.store(here, grad_beta, mask=inside)
    tl.store(here + part_stride, grad_gamma, mask=inside)
    tl.store(here + 2 * part_stride, normed, mask=inside)
    tl.store(here + 3 * part_stride, norms, mask=inside)
    tl.store(here + 4 * part_stride, normed_unit, mask=inside)


@triton.jit
def add_block(parts, blocks, columns, mask, num_channels):
    return tl.sum(load_rows(parts, blocks, columns, mask, num_channels), axis=0)


@triton.jit
def find_gradients(
    parts, gamma_in, inverse_in, total_in, beta_grad, gamma_grad, bias_grad, num_channels, num_blocks,
    BLOCK_B: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Gradients of beta, gamma and the bias from the sums over blocks."""
    columns = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    blocks = tl.arange(0, BLOCK_B)
    mask = (blocks < num_blocks)[:, None] & inside[None, :]
    part_stride = num_blocks * num_channels
    grad_beta = add_block(parts, blocks, columns, mask, num_channels)
    grad_gamma = add_block(parts + part_stride, blocks, columns, mask, num_channels)
    normed = add_block(parts + 2 * part_stride, blocks, columns, mask, num_channels)
    norms = add_block(parts + 3 * part_stride, blocks, columns, mask, num_channels)
    normed_unit = add_block(parts + 4 * part_stride, blocks, columns, mask, num_channels)
    factor = load_channels(gamma_in, columns, inside) * load_channels(inverse_in, columns, inside)
    grad_bias = factor * (normed - (grad_beta * norms + grad_gamma * normed_unit) / tl.load(total_in))
    tl.store(beta_grad + columns, grad_beta, mask=inside)
    tl.store(gamma_grad + columns, grad_gamma, mask=inside)
    tl.store(bias_grad + columns, grad_bias, mask=inside)


@triton.jit
def gradient_of_rows(
    grad, y, dropout_mask, scale, graph_norm, node_mask, mean_in, inverse_in, gamma_in, beta_in, total_in, beta_grad,
    gamma_grad, scaled_out_grad, self_out_grad, residual_grad, num_rows, num_channels, width, self_out_stride,
    rows_per_block, keep_factor, S: tl.constexpr, RELU: tl.constexpr, HAS_KEPT: tl.constexpr, HAS_OWN: tl.constexpr,
    HAS_SCALE: tl.constexpr, HAS_SIZE: tl.constexpr, HAS_REAL: tl.constexpr, HAS_RESIDUAL: tl.constexpr,
    BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Gradients of all inputs of :func:`combine_rows`, row by row."""
    block = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    place = (columns // width) * S * width + columns % width
    mean, inverse = load_channels(mean_in, columns, inside), load_channels(inverse_in, columns, inside)
    gamma, beta = load_channels(gamma_in, columns, inside), load_channels(beta_in, columns, inside)
    total = tl.load(total_in)
    grad_beta = load_channels(beta_grad, columns, inside) / total
    grad_gamma = load_channels(gamma_grad, columns, inside) / total
    for start in range(0, rows_per_block, BLOCK_N):
        rows = (block * rows_per_block + start + tl.arange(0, BLOCK_N)).to(tl.int64)
        mask = (rows < num_rows)[:, None] & inside[None, :]
        grad_out, grad_norm, unit = load_gradient(grad, y, dropout_mask, rows, columns, mask, num_channels, mean,
                                                  inverse, gamma, beta, keep_factor, RELU, HAS_KEPT)  # fmt: skip
        common = grad_beta[None, :] + unit * grad_gamma[None, :]
        real = load_mask(node_mask, rows, num_rows, HAS_REAL)
        here = (grad_norm - real[:, None] * common) * (gamma * inverse)[None, :]
        if HAS_SIZE:
            here *= tl.load(graph_norm + rows, mask=rows < num_rows, other=0.0).to(tl.float32)[:, None]
        for s in tl.static_range(S):
            part = here
            if HAS_SCALE:
                part = here * tl.load(scale + rows * S + s, mask=rows < num_rows, other=0.0).to(tl.float32)[:, None]
            to = scaled_out_grad + s * width + rows[:, None] * (S * num_channels) + place[None, :]
            tl.store(to, part, mask=mask)
        if HAS_OWN:
            tl.store(self_out_grad + rows[:, None] * self_out_stride + columns[None, :], here, mask=mask)
        if HAS_RESIDUAL and HAS_KEPT:
            tl.store(residual_grad + rows[:, None] * num_channels + columns[None, :], grad_out, mask=mask)
