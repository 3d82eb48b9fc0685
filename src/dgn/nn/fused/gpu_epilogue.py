"""Launching the kernels of the end of a layer, and its gradient."""

from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.kernels.autograd import once_differentiable
from dgn.kernels.triton.epilogue import (
    combine_rows,
    find_gradients,
    find_statistics,
    gradient_of_rows,
    normalize_rows,
    scale_rows,
    sum_gradients,
)
from dgn.kernels.triton.launch import Launcher
from dgn.kernels.triton.sizes import ceil_div, power_of_2
from dgn.nn.conv import ConvParts
from dgn.nn.dropout import Dropout
from dgn.nn.norm import BatchNorm

MOST_BLOCKS = 256  # of rows: their statistics are read at once
MOST_APART = 1024  # of rows that need no statistics
BLOCK_N = 16  # rows at once; measured, 32 takes three times as long on the backward pass


class Running(NamedTuple):
    """The running statistics of a batch norm, and how they move."""

    mean: Tensor
    variance: Tensor
    tracked: Tensor
    eps: float
    momentum: float


class EpilogueArgs(NamedTuple):
    """What follows the update: ``graph_norm`` and ``node_mask`` [N, 1], ``mask`` [N, out] of dropout, and the ReLU."""

    graph_norm: Tensor | None
    node_mask: Tensor | None
    mask: Tensor | None
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


def fused_epilogue(
    parts: ConvParts,
    norm: BatchNorm,
    dropout: Dropout,
    graph_norm: Tensor | None,
    node_mask: Tensor | None,
    residual: Tensor | None,
    relu: bool,
) -> Tensor:
    """See :func:`dgn.nn.layer.epilogue`."""
    scaled_out, self_out, scale, bias = parts
    rows = scaled_out.size(0)
    end = epilogue_args(rows, norm, graph_norm, node_mask, relu, dropout_mask(rows, norm, dropout), dropout.p)
    out: Tensor = FusedEpilogue.apply(scaled_out, self_out, scale, bias, norm.weight, norm.bias, residual, end)  # type: ignore[no-untyped-call]
    return out


def dropout_mask(rows: int, norm: BatchNorm, dropout: Dropout) -> Tensor | None:
    """1 for what dropout keeps and 0 for the rest [N, out]; ``None`` where it does nothing."""
    if not dropout.training or dropout.p == 0:
        return None
    mask = torch.empty(rows, norm.num_features, device=norm.weight.device)
    return mask.bernoulli_(1 - dropout.p, generator=dropout.generator)


def epilogue_args(
    rows: int,
    norm: BatchNorm,
    graph_norm: Tensor | None,
    node_mask: Tensor | None,
    relu: bool,
    dropout: Tensor | None,
    p: float,
) -> EpilogueArgs:
    """The arguments of the epilogue kernels; ``dropout`` is the mask of :func:`dropout_mask`."""
    # Kernels read one number for each row, and each behind the one before.
    norms, nodes = (None if part is None else part.expand(rows, 1).contiguous() for part in (graph_norm, node_mask))
    statistics: Any = norm.running_mean, norm.running_var, norm.num_batches_tracked, norm.eps, norm.momentum
    return EpilogueArgs(norms, nodes, dropout, 1 / (1 - p) if p < 1 else 0.0, relu, Running(*statistics))


def normalize(
    y: Tensor, parts: Parts, gamma: Tensor, beta: Tensor, residual: Tensor | None, end: EpilogueArgs
) -> tuple[Tensor, BatchStats]:
    """Batch norm, ReLU, residual and dropout: [N, out] -> [N, out], and the statistics."""
    n, channels = y.shape
    stats = BatchStats(*(y.new_empty(k) for k in (channels, channels, 1)))
    running, out = end.running, torch.empty_like(y)
    narrow, small = _statistics(channels)
    find_statistics[narrow](
        *parts, running.mean, running.variance, running.tracked, *stats, channels, len(parts.count), running.eps,
        running.momentum, **small,
    )  # fmt: skip
    rows, _, grid, shape = split_rows(n, channels, MOST_APART)
    normalize_rows[grid](
        y, stats.mean, stats.inverse, gamma, beta, _or(residual, y), _or(end.mask, y), out, n, channels, rows,
        end.keep_factor, RELU=end.relu, HAS_KEPT=end.mask is not None, HAS_RESIDUAL=residual is not None, **shape,
    )  # fmt: skip
    return out, stats


def norm_gradients(
    grad: Tensor, y: Tensor, stats: BatchStats, gamma: Tensor, beta: Tensor, end: EpilogueArgs
) -> NormGradients:
    """Sums over all rows that the gradient of each row needs."""
    n, channels = y.shape
    rows, blocks, grid, shape = split_rows(n, channels, MOST_BLOCKS)
    parts = y.new_empty(5, blocks, channels)
    sum_gradients[grid](
        grad, y, _or(end.mask, y), _or(end.graph_norm, y), _or(end.node_mask, y), stats.mean, stats.inverse, gamma,
        beta, parts, n, channels, rows, blocks, end.keep_factor, RELU=end.relu, HAS_KEPT=end.mask is not None,
        HAS_SIZE=end.graph_norm is not None, HAS_REAL=end.node_mask is not None, **shape,
    )  # fmt: skip
    of = NormGradients(*(torch.empty_like(gamma) for _ in range(3)))
    narrow, small = _statistics(channels)
    find_gradients[narrow](
        parts, gamma, stats.inverse, stats.total, of.beta, of.gamma, of.bias, channels, blocks, **small
    )
    return of


def row_gradients(
    grad: Tensor,
    y: Tensor,
    stats: BatchStats,
    gamma: Tensor,
    beta: Tensor,
    of: NormGradients,
    end: EpilogueArgs,
    scale: Tensor | None,
    scaled_out: Tensor,
    self_out: Tensor | None,
    residual: bool,
) -> Tensor | None:
    """Gradients before the norm, written to ``scaled_out`` and ``self_out``; returns that of the residual."""
    n, channels = y.shape
    rows, _, grid, shape = split_rows(n, channels, MOST_APART)
    apart = residual and end.mask is not None
    residual_grad = torch.empty_like(y) if apart else grad if residual else None
    gradient_of_rows[grid](
        grad, y, _or(end.mask, y), _or(scale, y), _or(end.graph_norm, y), _or(end.node_mask, y), stats.mean,
        stats.inverse, gamma, beta, stats.total, of.beta, of.gamma, scaled_out, _or(self_out, y), _or(residual_grad, y),
        n, channels, scaled_out.size(3), channels if self_out is None else self_out.stride(0), rows, end.keep_factor,
        S=scaled_out.size(2), RELU=end.relu, HAS_KEPT=end.mask is not None, HAS_OWN=self_out is not None,
        HAS_SCALE=scale is not None,
        HAS_SIZE=end.graph_norm is not None, HAS_REAL=end.node_mask is not None, HAS_RESIDUAL=residual, **shape,
    )  # fmt: skip
    return residual_grad


def combine(
    scaled_out: Tensor,
    self_out: Tensor | None,
    scale: Tensor | None,
    bias: Tensor,
    graph_norm: Tensor | None,
    node_mask: Tensor | None,
    statistics: bool = True,
) -> tuple[Tensor, Parts]:
    """The last sum of a convolution [N, out], and statistics of blocks of rows, if wanted; inputs are contiguous."""
    (n, _, scalers, width), channels = scaled_out.shape, bias.numel()
    rows, blocks, grid, shape = split_rows(n, channels, MOST_BLOCKS)
    y = scaled_out.new_empty(n, channels)
    parts = Parts(y, y, y)
    if statistics:
        parts = Parts(*(scaled_out.new_empty(blocks, *shape) for shape in ((channels,), (channels,), ())))
    has = self_out is not None, scale is not None, graph_norm is not None, node_mask is not None
    tensors = scaled_out, _or(self_out, y), _or(scale, y), bias, _or(graph_norm, y), _or(node_mask, y), y, *parts
    _combine_kernel(scalers, *has, statistics, shape["BLOCK_C"])(grid, tensors, n, channels, width, rows)
    return y, parts


@cache
def _combine_kernel(
    scalers: int, has_own: bool, has_scale: bool, has_size: bool, has_real: bool, statistics: bool, block_c: int
) -> Launcher:
    has = {"HAS_OWN": has_own, "HAS_SCALE": has_scale, "HAS_SIZE": has_size, "HAS_REAL": has_real}
    return Launcher(combine_rows, S=scalers, **has, STATISTICS=statistics, BLOCK_N=BLOCK_N, BLOCK_C=block_c)


def scale_gradient(grad: Tensor, scale: Tensor | None, towers: int, self_grad: Tensor | None) -> Tensor:
    """The gradient of ``scaled_out`` in :func:`combine`, [N, T, S, out / T]; that of ``self_out`` is copied."""
    n, channels = grad.shape
    if scale is None:
        if self_grad is not None:
            self_grad.copy_(grad)
        return grad.view(n, towers, 1, channels // towers)
    scaled_grad = grad.new_empty(n, towers, scale.size(1), channels // towers)
    rows, _, grid, shape = split_rows(n, channels, MOST_APART)
    launch = _scale_kernel(scale.size(1), self_grad is not None, shape["BLOCK_C"])
    tensors = grad, scale, scaled_grad, _or(self_grad, grad)
    launch(grid, tensors, n, channels, channels // towers, 0 if self_grad is None else self_grad.stride(0), rows)
    return scaled_grad


@cache
def _scale_kernel(scalers: int, has_own: bool, block_c: int) -> Launcher:
    return Launcher(scale_rows, S=scalers, HAS_OWN=has_own, BLOCK_N=BLOCK_N, BLOCK_C=block_c)


class FusedEpilogue(torch.autograd.Function):
    """See :func:`dgn.nn.layer.epilogue`."""

    @staticmethod
    def forward(
        ctx: Any,
        scaled_out: Tensor,
        self_out: Tensor | None,
        scale: Tensor | None,
        bias: Tensor,
        gamma: Tensor,
        beta: Tensor,
        residual: Tensor | None,
        end: EpilogueArgs,
    ) -> Tensor:
        scaled_out = scaled_out.contiguous()
        self_out, residual, scale = (None if t is None else t.contiguous() for t in (self_out, residual, scale))
        y, parts = combine(scaled_out, self_out, scale, bias, end.graph_norm, end.node_mask)
        out, stats = normalize(y, parts, gamma, beta, residual, end)
        ctx.save_for_backward(y, scale, gamma, beta, *stats)
        ctx.rest = scaled_out.shape, bias.shape, self_out is not None, residual is not None, end
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        y, scale, gamma, beta, *stats = ctx.saved_tensors
        every_shape, bias_shape, has_own, has_residual, end = ctx.rest
        grad, stats = grad.contiguous(), BatchStats(*stats)
        of = norm_gradients(grad, y, stats, gamma, beta, end)
        scaled_out, self_out = y.new_empty(every_shape), torch.empty_like(y) if has_own else None
        grad_residual = row_gradients(grad, y, stats, gamma, beta, of, end, scale, scaled_out, self_out, has_residual)
        return scaled_out, self_out, None, of.bias.view(bias_shape), of.gamma, of.beta, grad_residual, None


def split_rows(n: int, channels: int, most_blocks: int) -> tuple[int, int, tuple[int, int], dict[str, int]]:
    """Rows per block, number of blocks, the grid, and the shape of a program."""
    rows = BLOCK_N * max(1, ceil_div(n, most_blocks * BLOCK_N))
    blocks = ceil_div(n, rows)
    block_c = min(64, power_of_2(channels))
    return rows, blocks, (blocks, ceil_div(channels, block_c)), {"BLOCK_N": BLOCK_N, "BLOCK_C": block_c}


def _statistics(channels: int) -> tuple[tuple[int], dict[str, int]]:
    """The grid and the shape of programs that read the statistics of all blocks, for few channels each."""
    return (ceil_div(channels, 8),), {"BLOCK_B": MOST_BLOCKS, "BLOCK_C": 8}


def _or(tensor: Tensor | None, unused: Tensor) -> Tensor:
    return unused if tensor is None else tensor
