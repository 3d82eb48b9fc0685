"""Launching the kernels of the end of a layer, and its gradient."""

from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from dgn.kernels.autograd import once_differentiable
from dgn.kernels.triton.epilogue import (
    combine_rows,
    find_gradients,
    find_statistics,
    gradient_of_rows,
    normalize_rows,
    sum_gradients,
)

MOST_BLOCKS = 256  # of rows: their statistics are read at once
MOST_APART = 1024  # of rows that need no statistics
BLOCK_N = 16  # rows at once; measured, 32 takes three times as long on the way back


class Running(NamedTuple):
    """The running statistics of a batch norm, and how they move."""

    mean: Tensor
    variance: Tensor
    tracked: Tensor
    eps: float
    momentum: float


class EpilogueArgs(NamedTuple):
    """What follows the update: ``graph_norm`` and ``node_mask`` [N, 1], ``kept`` [N, out] of dropout, and the ReLU."""

    graph_norm: Tensor | None
    node_mask: Tensor | None
    kept: Tensor | None
    keep_factor: float
    relu: bool
    running: Running


class Parts(NamedTuple):
    """Statistics of blocks of rows: ``mean`` and ``spread`` [B, out], ``count`` [B]."""

    mean: Tensor
    spread: Tensor
    count: Tensor  # type: ignore[assignment]


class BatchStats(NamedTuple):
    """Statistics of all rows: ``mean`` and ``inverse`` deviation [out], ``total`` [1] of the rows that count."""

    mean: Tensor
    inverse: Tensor
    total: Tensor


class NormGradients(NamedTuple):
    """Gradients of batch norm's factor and offset, and of the bias before it, [out] each."""

    gamma: Tensor
    beta: Tensor
    bias: Tensor


def normalize(
    y: Tensor, parts: Parts, gamma: Tensor, beta: Tensor, residual: Tensor | None, end: EpilogueArgs
) -> tuple[Tensor, BatchStats]:
    """Batch norm, ReLU, residual and dropout: [N, out] -> [N, out], and the statistics."""
    n, channels = y.shape
    found = BatchStats(*(y.new_empty(k) for k in (channels, channels, 1)))
    running, out = end.running, torch.empty_like(y)
    narrow, small = _statistics(channels)
    find_statistics[narrow](
        *parts, running.mean, running.variance, running.tracked, *found, channels, len(parts.count), running.eps,
        running.momentum, **small,
    )  # fmt: skip
    rows, _, grid, shape = split_rows(n, channels, MOST_APART)
    normalize_rows[grid](
        y, found.mean, found.inverse, gamma, beta, _or(residual, y), _or(end.kept, y), out, n, channels, rows,
        end.keep_factor, RELU=end.relu, HAS_KEPT=end.kept is not None, HAS_RESIDUAL=residual is not None, **shape,
    )  # fmt: skip
    return out, found


def norm_gradients(
    grad: Tensor, y: Tensor, found: BatchStats, gamma: Tensor, beta: Tensor, end: EpilogueArgs
) -> NormGradients:
    """Sums over all rows that the gradient of each row needs."""
    n, channels = y.shape
    rows, blocks, grid, shape = split_rows(n, channels, MOST_BLOCKS)
    parts = y.new_empty(5, blocks, channels)
    sum_gradients[grid](
        grad, y, _or(end.kept, y), _or(end.graph_norm, y), _or(end.node_mask, y), found.mean, found.inverse, gamma,
        beta, parts, n, channels, rows, blocks, end.keep_factor, RELU=end.relu, HAS_KEPT=end.kept is not None,
        HAS_SIZE=end.graph_norm is not None, HAS_REAL=end.node_mask is not None, **shape,
    )  # fmt: skip
    of = NormGradients(*(torch.empty_like(gamma) for _ in range(3)))
    narrow, small = _statistics(channels)
    find_gradients[narrow](
        parts, gamma, found.inverse, found.total, of.beta, of.gamma, of.bias, channels, blocks, **small
    )
    return of


def row_gradients(
    grad: Tensor,
    y: Tensor,
    found: BatchStats,
    gamma: Tensor,
    beta: Tensor,
    of: NormGradients,
    end: EpilogueArgs,
    scale: Tensor | None,
    every: Tensor,
    own: Tensor | None,
    residual: bool,
) -> Tensor | None:
    """Gradients before the norm, written to ``every`` (for each scaler) and ``own``; returns that of the residual."""
    n, channels = y.shape
    rows, _, grid, shape = split_rows(n, channels, MOST_APART)
    apart = residual and end.kept is not None
    residual_grad = torch.empty_like(y) if apart else grad if residual else None
    gradient_of_rows[grid](
        grad, y, _or(end.kept, y), _or(scale, y), _or(end.graph_norm, y), _or(end.node_mask, y), found.mean,
        found.inverse, gamma, beta, found.total, of.beta, of.gamma, every, _or(own, y), _or(residual_grad, y), n,
        channels, every.size(3), channels if own is None else own.stride(0), rows, end.keep_factor, S=every.size(2),
        RELU=end.relu, HAS_KEPT=end.kept is not None, HAS_OWN=own is not None, HAS_SCALE=scale is not None,
        HAS_SIZE=end.graph_norm is not None, HAS_REAL=end.node_mask is not None, HAS_RESIDUAL=residual, **shape,
    )  # fmt: skip
    return residual_grad


def combine(
    every: Tensor,
    own: Tensor | None,
    scale: Tensor | None,
    bias: Tensor,
    graph_norm: Tensor | None,
    node_mask: Tensor | None,
) -> tuple[Tensor, Parts]:
    """The last sum of a convolution [N, out], and statistics of its blocks of rows; all given are contiguous."""
    (n, _, scalers, width), channels = every.shape, bias.numel()
    rows, blocks, grid, shape = split_rows(n, channels, MOST_BLOCKS)
    y = every.new_empty(n, channels)
    parts = Parts(every.new_empty(blocks, channels), every.new_empty(blocks, channels), every.new_empty(blocks))
    combine_rows[grid](
        every, _or(own, y), _or(scale, y), bias, _or(graph_norm, y), _or(node_mask, y), y, *parts, n, channels, width,
        rows, S=scalers, HAS_OWN=own is not None, HAS_SCALE=scale is not None, HAS_SIZE=graph_norm is not None,
        HAS_REAL=node_mask is not None, **shape,
    )  # fmt: skip
    return y, parts


class Finish(torch.autograd.Function):
    """See :func:`dgn.nn.fused.epilogue.finish`."""

    @staticmethod
    def forward(
        ctx: Any,
        every: Tensor,
        own: Tensor | None,
        scale: Tensor | None,
        bias: Tensor,
        gamma: Tensor,
        beta: Tensor,
        residual: Tensor | None,
        end: EpilogueArgs,
    ) -> Tensor:
        every = every.contiguous()
        own, residual, scale = (None if t is None else t.contiguous() for t in (own, residual, scale))
        y, parts = combine(every, own, scale, bias, end.graph_norm, end.node_mask)
        out, found = normalize(y, parts, gamma, beta, residual, end)
        ctx.save_for_backward(y, scale, gamma, beta, *found)
        ctx.rest = every.shape, bias.shape, own is not None, residual is not None, end
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, scale, gamma, beta, *found = ctx.saved_tensors
        every_shape, bias_shape, has_own, has_residual, end = ctx.rest
        grad, found = grad.contiguous(), BatchStats(*found)
        of = norm_gradients(grad, y, found, gamma, beta, end)
        every, own = y.new_empty(every_shape), torch.empty_like(y) if has_own else None
        grad_residual = row_gradients(grad, y, found, gamma, beta, of, end, scale, every, own, has_residual)
        return every, own, None, of.bias.view(bias_shape), of.gamma, of.beta, grad_residual, None


def split_rows(n: int, channels: int, most_blocks: int) -> tuple[int, int, tuple[int, int], dict[str, int]]:
    """Rows per block, number of blocks, the grid, and the shape of a program."""
    rows = BLOCK_N * max(1, triton.cdiv(n, most_blocks * BLOCK_N))
    blocks = triton.cdiv(n, rows)
    block_c = min(64, triton.next_power_of_2(channels))
    return rows, blocks, (blocks, triton.cdiv(channels, block_c)), {"BLOCK_N": BLOCK_N, "BLOCK_C": block_c}


def _statistics(channels: int) -> tuple[tuple[int], dict[str, int]]:
    """The grid and the shape of programs that read the statistics of all blocks, for few channels each."""
    return (triton.cdiv(channels, 8),), {"BLOCK_B": MOST_BLOCKS, "BLOCK_C": 8}


def _or(tensor: Tensor | None, unused: Tensor) -> Tensor:
    return unused if tensor is None else tensor
