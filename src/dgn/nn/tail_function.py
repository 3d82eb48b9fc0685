"""Launching the kernels of the end of a layer, and its gradient."""

from typing import Any

import torch
import triton
from torch import Tensor

from dgn.nn.tail_kernels import (
    combine_rows,
    find_gradients,
    find_statistics,
    gradient_of_rows,
    normalize_rows,
    sum_gradients,
)

MOST_BLOCKS = 128  # of rows: their statistics are read at once
BLOCK_N = 16  # rows at once; measured, 32 takes three times as long on the way back


class Finish(torch.autograd.Function):
    """See :func:`dgn.nn.tail.finish`."""

    @staticmethod
    def forward(
        ctx: Any,
        every: Tensor,
        own: Tensor | None,
        scale: Tensor | None,
        bias: Tensor,
        size: Tensor | None,
        real: Tensor | None,
        gamma: Tensor,
        beta: Tensor,
        residual: Tensor | None,
        kept: Tensor | None,
        statistics: tuple[Tensor, Tensor, Tensor, float, float],
        relu: bool,
        keep_factor: float,
    ) -> Tensor:
        every = every.contiguous()
        own, residual, scale = (None if t is None else t.contiguous() for t in (own, residual, scale))
        n, _, scalers, width = every.shape
        channels = bias.numel()
        running_mean, running_var, tracked, eps, momentum = statistics
        rows, blocks, grid, shape = _blocks(n, channels)
        y, out = every.new_empty(n, channels), every.new_empty(n, channels)
        means, spreads = every.new_empty(blocks, channels), every.new_empty(blocks, channels)
        counts, mean, inverse, total = (every.new_empty(k) for k in (blocks, channels, channels, 1))
        flags = {"HAS_OWN": own is not None, "HAS_SCALE": scale is not None, "HAS_SIZE": size is not None}
        flags |= {"HAS_REAL": real is not None}
        combine_rows[grid](
            every, _or(own, y), _or(scale, y), bias, _or(size, y), _or(real, y), y, means, spreads, counts, n,
            channels, width, rows, S=scalers, **flags, **shape,
        )  # fmt: skip
        narrow, small = _statistics(channels)
        find_statistics[narrow](
            means, spreads, counts, running_mean, running_var, tracked, mean, inverse, total, channels, blocks, eps,
            momentum, **small,
        )  # fmt: skip
        ends = {"RELU": relu, "HAS_KEPT": kept is not None, "HAS_RESIDUAL": residual is not None}
        normalize_rows[grid](
            y, mean, inverse, gamma, beta, _or(residual, y), _or(kept, y), out, n, channels, rows, keep_factor, **ends,
            **shape,
        )  # fmt: skip
        ctx.save_for_backward(y, scale, size, real, gamma, beta, kept, mean, inverse, total)
        ctx.rest = every.shape, bias.shape, flags, ends, keep_factor
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, scale, size, real, gamma, beta, kept, mean, inverse, total = ctx.saved_tensors
        every_shape, bias_shape, flags, ends, keep_factor = ctx.rest
        grad = grad.contiguous()
        n, channels = y.shape
        rows, blocks, grid, shape = _blocks(n, channels)
        parts = y.new_empty(5, blocks, channels)
        sum_gradients[grid](
            grad, y, _or(kept, y), _or(size, y), _or(real, y), mean, inverse, gamma, beta, parts, n, channels, rows,
            blocks, keep_factor, RELU=ends["RELU"], HAS_KEPT=ends["HAS_KEPT"], HAS_SIZE=flags["HAS_SIZE"],
            HAS_REAL=flags["HAS_REAL"], **shape,
        )  # fmt: skip
        gamma_grad, beta_grad, bias_grad = (torch.empty_like(gamma) for _ in range(3))
        narrow, small = _statistics(channels)
        find_gradients[narrow](
            parts, gamma, inverse, total, beta_grad, gamma_grad, bias_grad, channels, blocks, **small
        )
        every_grad = y.new_empty(every_shape)
        own_grad = torch.empty_like(y) if flags["HAS_OWN"] else None
        apart = ends["HAS_RESIDUAL"] and ends["HAS_KEPT"]
        residual_grad = torch.empty_like(y) if apart else grad if ends["HAS_RESIDUAL"] else None
        gradient_of_rows[grid](
            grad, y, _or(kept, y), _or(scale, y), _or(size, y), _or(real, y), mean, inverse, gamma, beta, total,
            beta_grad, gamma_grad, every_grad, _or(own_grad, y), _or(residual_grad, y), n, channels, every_shape[3],
            rows, keep_factor, S=every_shape[2], **flags, **ends, **shape,
        )  # fmt: skip
        found = every_grad, own_grad, None, bias_grad.view(bias_shape), None, None, gamma_grad, beta_grad, residual_grad
        return (*found, None, None, None, None)


def _blocks(n: int, channels: int) -> tuple[int, int, tuple[int, int], dict[str, int]]:
    """Rows per block, number of blocks, the grid, and the shape of a program."""
    rows = BLOCK_N * max(1, triton.cdiv(n, MOST_BLOCKS * BLOCK_N))
    blocks = triton.cdiv(n, rows)
    block_c = min(64, triton.next_power_of_2(channels))
    return rows, blocks, (blocks, triton.cdiv(channels, block_c)), {"BLOCK_N": BLOCK_N, "BLOCK_C": block_c}


def _statistics(channels: int) -> tuple[tuple[int], dict[str, int]]:
    """The grid and the shape of programs that read the statistics of all blocks, for few channels each."""
    return (triton.cdiv(channels, 8),), {"BLOCK_B": MOST_BLOCKS, "BLOCK_C": 8}


def _or(tensor: Tensor | None, unused: Tensor) -> Tensor:
    return unused if tensor is None else tensor
