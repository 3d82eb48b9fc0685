"""The end of a layer on the GPU (Triton): sum over scalers, batch norm, ReLU, residual and dropout in two passes.

Statistics are made of those of blocks of rows, always in the same order. Rows of padding have ``real`` 0.
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
def load_real(real, rows, num_rows, HAS_REAL: tl.constexpr):
    """1 for rows that count, 0 for padding and beyond the end."""
    inside = rows < num_rows
    if HAS_REAL:
        return tl.load(real + rows, mask=inside, other=0.0).to(tl.float32)
    return inside.to(tl.float32)


@triton.jit
def combine_rows(
    every, own, scale, bias, size, real, y, block_mean, block_spread, block_count, num_rows, num_channels, width,
    rows_per_block, S: tl.constexpr, HAS_OWN: tl.constexpr, HAS_SCALE: tl.constexpr, HAS_SIZE: tl.constexpr,
    HAS_REAL: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Sum over scalers, own part, bias and size factor; mean and spread of each block of rows."""
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
            part = load_rows(every + s * width, rows, place, mask, S * num_channels)
            if HAS_SCALE:
                part *= tl.load(scale + rows * S + s, mask=rows < num_rows, other=0.0).to(tl.float32)[:, None]
            total += part
        if HAS_OWN:
            total += load_rows(own, rows, columns, mask, num_channels)
        if HAS_SIZE:
            total *= tl.load(size + rows, mask=rows < num_rows, other=0.0).to(tl.float32)[:, None]
        tl.store(y + rows[:, None] * num_channels + columns[None, :], total, mask=mask)
        weight = load_real(real, rows, num_rows, HAS_REAL)
        fresh = tl.sum(weight)
        its_mean = tl.sum(weight[:, None] * total, axis=0) / tl.maximum(fresh, 1.0)
        far = total - its_mean[None, :]
        its_spread = tl.sum(weight[:, None] * far * far, axis=0)
        joint = tl.maximum(count + fresh, 1.0)
        step = its_mean - mean
        spread += its_spread + step * step * (count * fresh / joint)
        mean += step * (fresh / joint)
        count += fresh
    tl.store(block_mean + block * num_channels + columns, mean, mask=inside)
    tl.store(block_spread + block * num_channels + columns, spread, mask=inside)
    tl.store(block_count + block, count)


@triton.jit
def find_statistics(
    block_mean, block_spread, block_count, running_mean, running_var, tracked, mean_out, inverse_out, total_out,
    num_channels, num_blocks, eps, momentum, BLOCK_B: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Mean and inverse deviation of all rows from those of blocks; the running ones move along if any row counts."""
    columns = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    blocks = tl.arange(0, BLOCK_B)
    known = (blocks < num_blocks)[:, None] & inside[None, :]
    counts = tl.load(block_count + blocks, mask=blocks < num_blocks, other=0.0)
    found = tl.sum(counts)
    total = tl.maximum(found, 1.0)
    means = load_rows(block_mean, blocks, columns, known, num_channels)
    mean = tl.sum(means * counts[:, None], axis=0) / total
    far = means - mean[None, :]
    spreads = load_rows(block_spread, blocks, columns, known, num_channels) + far * far * counts[:, None]
    variance = tl.sum(spreads, axis=0) / total
    tl.store(mean_out + columns, mean, mask=inside)
    tl.store(inverse_out + columns, 1.0 / tl.sqrt(variance + eps), mask=inside)
    old_mean, old_var = load_channels(running_mean, columns, inside), load_channels(running_var, columns, inside)
    unbiased = variance * (total / tl.maximum(total - 1.0, 1.0))
    moved = momentum * tl.minimum(found, 1.0)
    tl.store(running_mean + columns, old_mean + moved * (mean - old_mean), mask=inside)
    tl.store(running_var + columns, old_var + moved * (unbiased - old_var), mask=inside)
    if tl.program_id(0) == 0:
        tl.store(total_out, total)
        tl.store(tracked, tl.load(tracked) + 1)


@triton.jit
def normalize_rows(
    y, mean_in, inverse_in, gamma_in, beta_in, residual, kept, out, num_rows, num_channels, rows_per_block, keep_factor,
    RELU: tl.constexpr, HAS_RESIDUAL: tl.constexpr, HAS_KEPT: tl.constexpr, BLOCK_N: tl.constexpr,
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
            value = tl.where(value < 0.0, 0.0, value)  # NaN stays
        if HAS_RESIDUAL:
            value += load_rows(residual, rows, columns, mask, num_channels)
        if HAS_KEPT:
            value *= load_rows(kept, rows, columns, mask, num_channels) * keep_factor
        tl.store(out + rows[:, None] * num_channels + columns[None, :], value, mask=mask)


@triton.jit
def load_gradient(grad, y, kept, rows, columns, mask, num_channels, mean, inverse, gamma, beta, keep_factor,
                  RELU: tl.constexpr, HAS_KEPT: tl.constexpr):  # fmt: skip
    """The gradient behind dropout, that behind the ReLU, and the normalised rows."""
    outer = load_rows(grad, rows, columns, mask, num_channels)
    if HAS_KEPT:
        outer *= load_rows(kept, rows, columns, mask, num_channels) * keep_factor
    unit = (load_rows(y, rows, columns, mask, num_channels) - mean[None, :]) * inverse[None, :]
    inner = outer
    if RELU:
        inner = tl.where(unit * gamma[None, :] + beta[None, :] > 0.0, outer, 0.0)
    return outer, inner, unit


@triton.jit
def sum_gradients(
    grad, y, kept, size, real, mean_in, inverse_in, gamma_in, beta_in, parts, num_rows, num_channels, rows_per_block,
    num_blocks, keep_factor, RELU: tl.constexpr, HAS_KEPT: tl.constexpr, HAS_SIZE: tl.constexpr,
    HAS_REAL: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Sums over each block of rows that gradients need, in ``parts`` [5, blocks, C].

    With g the gradient behind the ReLU, u the normalised rows, r real and s the size: g, g u, s g, s r, s r u.
    """
    block = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    mean, inverse = load_channels(mean_in, columns, inside), load_channels(inverse_in, columns, inside)
    gamma, beta = load_channels(gamma_in, columns, inside), load_channels(beta_in, columns, inside)
    of_beta, of_gamma = tl.zeros([BLOCK_C], tl.float32), tl.zeros([BLOCK_C], tl.float32)
    sized, sizes, sized_unit = of_beta, of_beta, of_beta
    for start in range(0, rows_per_block, BLOCK_N):
        rows = (block * rows_per_block + start + tl.arange(0, BLOCK_N)).to(tl.int64)
        mask = (rows < num_rows)[:, None] & inside[None, :]
        _, inner, unit = load_gradient(grad, y, kept, rows, columns, mask, num_channels, mean, inverse, gamma, beta,
                                       keep_factor, RELU, HAS_KEPT)  # fmt: skip
        counts = load_real(real, rows, num_rows, HAS_REAL)
        of_beta += tl.sum(inner, axis=0)
        of_gamma += tl.sum(inner * unit, axis=0)
        factor = tl.zeros([BLOCK_N], tl.float32) + 1.0
        if HAS_SIZE:
            factor = tl.load(size + rows, mask=rows < num_rows, other=0.0).to(tl.float32)
        sized += tl.sum(inner * factor[:, None], axis=0)
        sizes += tl.sum(counts * factor)
        sized_unit += tl.sum(tl.where(mask, unit, 0.0) * (counts * factor)[:, None], axis=0)
    here = parts + block * num_channels + columns
    apart = num_blocks * num_channels
    tl.store(here, of_beta, mask=inside)
    tl.store(here + apart, of_gamma, mask=inside)
    tl.store(here + 2 * apart, sized, mask=inside)
    tl.store(here + 3 * apart, sizes, mask=inside)
    tl.store(here + 4 * apart, sized_unit, mask=inside)


@triton.jit
def add_block(parts, blocks, columns, known, num_channels):
    return tl.sum(load_rows(parts, blocks, columns, known, num_channels), axis=0)


@triton.jit
def find_gradients(
    parts, gamma_in, inverse_in, total_in, beta_grad, gamma_grad, bias_grad, num_channels, num_blocks,
    BLOCK_B: tl.constexpr, BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Gradients of beta, gamma and the bias from the sums over blocks."""
    columns = tl.program_id(0) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    blocks = tl.arange(0, BLOCK_B)
    known = (blocks < num_blocks)[:, None] & inside[None, :]
    apart = num_blocks * num_channels
    of_beta = add_block(parts, blocks, columns, known, num_channels)
    of_gamma = add_block(parts + apart, blocks, columns, known, num_channels)
    sized = add_block(parts + 2 * apart, blocks, columns, known, num_channels)
    sizes = add_block(parts + 3 * apart, blocks, columns, known, num_channels)
    sized_unit = add_block(parts + 4 * apart, blocks, columns, known, num_channels)
    factor = load_channels(gamma_in, columns, inside) * load_channels(inverse_in, columns, inside)
    grad_bias = factor * (sized - (of_beta * sizes + of_gamma * sized_unit) / tl.load(total_in))
    tl.store(beta_grad + columns, of_beta, mask=inside)
    tl.store(gamma_grad + columns, of_gamma, mask=inside)
    tl.store(bias_grad + columns, grad_bias, mask=inside)


@triton.jit
def gradient_of_rows(
    grad, y, kept, scale, size, real, mean_in, inverse_in, gamma_in, beta_in, total_in, beta_grad, gamma_grad,
    every_grad, own_grad, residual_grad, num_rows, num_channels, width, own_stride, rows_per_block, keep_factor,
    S: tl.constexpr,
    RELU: tl.constexpr, HAS_KEPT: tl.constexpr, HAS_OWN: tl.constexpr, HAS_SCALE: tl.constexpr,
    HAS_SIZE: tl.constexpr, HAS_REAL: tl.constexpr, HAS_RESIDUAL: tl.constexpr, BLOCK_N: tl.constexpr,
    BLOCK_C: tl.constexpr,
):  # fmt: skip
    """Gradients of everything that :func:`combine_rows` read, row by row."""
    block = tl.program_id(0)
    columns = tl.program_id(1) * BLOCK_C + tl.arange(0, BLOCK_C)
    inside = columns < num_channels
    place = (columns // width) * S * width + columns % width
    mean, inverse = load_channels(mean_in, columns, inside), load_channels(inverse_in, columns, inside)
    gamma, beta = load_channels(gamma_in, columns, inside), load_channels(beta_in, columns, inside)
    total = tl.load(total_in)
    of_beta = load_channels(beta_grad, columns, inside) / total
    of_gamma = load_channels(gamma_grad, columns, inside) / total
    for start in range(0, rows_per_block, BLOCK_N):
        rows = (block * rows_per_block + start + tl.arange(0, BLOCK_N)).to(tl.int64)
        mask = (rows < num_rows)[:, None] & inside[None, :]
        outer, inner, unit = load_gradient(grad, y, kept, rows, columns, mask, num_channels, mean, inverse, gamma, beta,
                                           keep_factor, RELU, HAS_KEPT)  # fmt: skip
        common = of_beta[None, :] + unit * of_gamma[None, :]
        here = (inner - load_real(real, rows, num_rows, HAS_REAL)[:, None] * common) * (gamma * inverse)[None, :]
        if HAS_SIZE:
            here *= tl.load(size + rows, mask=rows < num_rows, other=0.0).to(tl.float32)[:, None]
        for s in tl.static_range(S):
            part = here
            if HAS_SCALE:
                part = here * tl.load(scale + rows * S + s, mask=rows < num_rows, other=0.0).to(tl.float32)[:, None]
            to = every_grad + s * width + rows[:, None] * (S * num_channels) + place[None, :]
            tl.store(to, part, mask=mask)
        if HAS_OWN:
            tl.store(own_grad + rows[:, None] * own_stride + columns[None, :], here, mask=mask)
        if HAS_RESIDUAL and HAS_KEPT:
            tl.store(residual_grad + rows[:, None] * num_channels + columns[None, :], outer, mask=mask)
