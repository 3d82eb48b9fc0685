"""The end of a layer on the CPU, as one function: size factor, batch norm, ReLU and residual."""

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgn.aggregation.dispatch import CPU_DTYPES
from dgn.kernels.autograd import differentiable_once
from dgn.kernels.numba.threads import for_chunks
from dgn.nn.fused.cpu_rows import up
from dgn.nn.norm import BatchNorm, suits_kernels

NARROWEST = 16  # channels that kernels read at once
SMALLEST = 1 << 18  # numbers in a piece of work: below, handing it to a thread takes as long as doing it


def is_fused(y: Tensor, norm: BatchNorm, size: Tensor | None, real: Tensor | None) -> bool:
    """Whether :func:`finish_rows` applies: in training, in one process, without padding, and worth the kernels."""
    if real is not None or y.device.type != "cpu" or y.dtype not in CPU_DTYPES or not suits_kernels(norm, y):
        return False
    same = norm.weight.dtype == y.dtype and (size is None or (size.dtype == y.dtype and len(size) == len(y)))
    large = y.size(0) > 1 and norm.num_features >= NARROWEST
    return same and large and find_spec("numba") is not None


def finish_rows(y: Tensor, norm: BatchNorm, size: Tensor | None, residual: Tensor | None, relu: bool) -> Tensor:
    r"""The end of a layer, without dropout: :math:`r_i + \text{relu}(\text{norm}(s_i y_i))`.

    Shapes:
        ``y`` and ``residual`` [N, C], ``size`` [N, 1]; returns [N, C], a view of rows filled up to a multiple of 16.
    """
    out: Tensor = _Finish.apply(y, norm.weight, norm.bias, residual, size, norm, relu)  # type: ignore[no-untyped-call]
    return out


class Rows(NamedTuple):
    """What the way back of the end of a layer needs: its input, size factors, moments, the shift of the norm."""

    y: Any
    size: Any
    moments: Any
    shift: Any
    relu: bool


def forward_end(
    y: Tensor, norm: BatchNorm, size: Tensor | None, residual: Tensor | None, relu: bool
) -> tuple[Tensor, Rows]:
    """The end of a layer for all rows, filled up; running statistics move on."""
    from dgn.kernels.numba import epilogue as kernels

    (count, channels), blocks = y.shape, -(-y.size(0) // kernels.ROWS)
    rows = _rows(y)
    factor = np.empty(0, rows.dtype) if size is None else size.flatten().numpy()
    mean, square = np.empty((2, blocks, channels), rows.dtype)
    _for_chunks(kernels.block_moments, rows, blocks, rows, factor, mean, square)
    moments = np.empty((3, channels), rows.dtype)
    assert norm.running_mean is not None
    assert norm.running_var is not None
    assert norm.num_batches_tracked is not None
    running = norm.running_mean.numpy(), norm.running_var.numpy()
    gain, shift = norm.weight.detach().numpy(), norm.bias.detach().numpy()[None]
    kernels.join_moments(count, mean, square, norm.eps, norm.momentum, gain, moments, *running)
    norm.num_batches_tracked.add_(1)
    out = y.new_empty(count, up(channels))
    beside = np.empty((0, channels), rows.dtype) if residual is None else _rows(residual)
    found = out.numpy()
    found[:, channels:] = 0
    _for_chunks(kernels.normalize, rows, count, rows, factor, moments, shift, beside, relu, found[:, :channels])
    # Not a view: one that a function returns cannot be changed in place.
    return out[:, :channels].data, Rows(rows, factor, moments, shift, relu)


def backward_end(kept: Rows, grad: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of ``y``, in rows that are filled up, of the gain and of the shift."""
    from dgn.kernels.numba import epilogue as kernels

    y, size, moments, shift, relu = kept
    (count, channels), blocks = y.shape, -(-len(y) // kernels.ROWS)
    given = _rows(grad), y, size, moments, shift, relu
    sums = np.empty((2, blocks, channels), y.dtype)
    _for_chunks(kernels.block_gradients, y, blocks, *given, sums[0], sums[1])
    totals = sums.sum(axis=1)
    out = grad.new_empty(count, up(channels))
    found = out.numpy()[:, :channels]
    _for_chunks(kernels.gradient_of_rows, y, count, *given, totals[:1], totals[1:], found)
    return out, torch.from_numpy(totals[1]), torch.from_numpy(totals[0])


class _Finish(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        y: Tensor,
        gain: Tensor,  # noqa: ARG004, read from the norm
        shift: Tensor,
        residual: Tensor | None,
        size: Tensor | None,
        norm: BatchNorm,
        relu: bool,
    ) -> Tensor:
        out, ctx.kept = forward_end(y, norm, size, residual, relu)
        ctx.save_for_backward(y, shift, size)
        return out

    @staticmethod
    @differentiable_once
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        _ = ctx.saved_tensors  # raises where one of them was changed in place
        of_y, gain, shift = backward_end(ctx.kept, grad)
        return of_y[:, : grad.size(1)], gain, shift, grad if ctx.needs_input_grad[3] else None, None, None, None


def _for_chunks(kernel: Callable[..., None], y: Any, count: int, *arguments: Any) -> None:
    """Run a kernel over all rows or blocks of rows."""
    for_chunks(lambda begin, end: kernel(begin, end, *arguments), count, -(-SMALLEST * count // y.size))


def _rows(values: Tensor) -> Any:
    """Numbers of a row side by side."""
    return (values if values.stride(1) == 1 else values.contiguous()).detach().numpy()
