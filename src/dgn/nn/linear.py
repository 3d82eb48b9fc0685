"""A linear map of many rows by a small matrix, with a fast backward pass on a GPU."""

from typing import Any

import torch
from torch import Tensor, nn

from dgn.nn.fused.wgrad_stream import current_wgrad_stream, on

TALL = 1 << 13  # rows from which the gradient of a small matrix is summed in parts
TALL_TOWER = 1 << 10  # the same for matrices of towers: alone, each would keep one multiprocessor busy with all rows
PARTS = 64
FEW_PARTS, LARGE = 16, 1 << 16  # for products of so many numbers: each part writes all of them


class Linear(nn.Linear):
    """``nn.Linear``. On a GPU, small products with many rows come back faster; results differ by rounding.

    >>> Linear(2, 3)(torch.ones(4, 2)).shape
    torch.Size([4, 3])
    """

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002, the name of the parent class
        if input.dim() != 2 or not is_plain(input, self.weight):  # three dimensions are towers to the functions here
            return super().forward(input)
        out = multiply(input, self.weight)
        return out if self.bias is None else add_bias(out, self.bias)


def is_plain(x: Tensor, weight: Tensor) -> bool:
    """Whether the functions here take a product over: on a GPU, of one type, and not while tracing."""
    tracing = torch.compiler.is_compiling() or torch.is_autocast_enabled(x.device.type)
    return x.is_cuda and x.dim() in (2, 3) and x.dtype == weight.dtype and not tracing


def multiply(x: Tensor, weight: Tensor) -> Tensor:
    """``x @ weight.T``: ``[N, in] x [out, in] -> [N, out]``, or, tower by tower, ``[N, T, in] x [T, out, in]``."""
    if is_plain(x, weight) and (x.size(0) >= TALL or current_wgrad_stream() is not None):
        out: Tensor = _Multiply.apply(x, weight)  # type: ignore[no-untyped-call]
        return out
    return _times(x, weight)


def _times(x: Tensor, weight: Tensor) -> Tensor:
    return x @ weight.T if weight.dim() == 2 else torch.einsum("nti,toi->nto", x, weight)


def grouped_matmul(x: Tensor, matrices: Tensor) -> Tensor:
    """Each tower times its own matrix, without a gradient: ``[N, T, in] x [T, in, out] -> [N, T, out]``.

    One batch of products reads the towers where they lie and writes them where they shall lie: nothing is copied.
    """
    if len(matrices) == 1:
        return (x.flatten(1) @ matrices[0])[:, None]
    out = x.new_empty(x.size(0), len(matrices), matrices.size(2))
    torch.bmm(x.transpose(0, 1), matrices, out=out.transpose(0, 1))
    return out


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """``x + bias``: ``[N, C] + [C]``."""
    if is_plain(x, bias):
        out: Tensor = _AddBias.apply(x, bias)  # type: ignore[no-untyped-call]
        return out
    return x + bias.to(x.dtype)


class _Multiply(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.side = current_wgrad_stream()
        return _times(x, weight)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        grad_x = grad_weight = None
        if ctx.needs_input_grad[1]:
            with on(ctx.side, grad, x):
                grad_weight = transposed_matmul(grad, x)
        if ctx.needs_input_grad[0]:
            grad_x = _times(grad, weight.transpose(-1, -2))
        return grad_x, grad_weight


class _AddBias(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:
        ctx.side = current_wgrad_stream()
        return x + bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        with on(ctx.side, grad):
            grad_bias = column_sums(grad)
        return grad, grad_bias


def transposed_matmul(a: Tensor, b: Tensor) -> Tensor:
    """``a.T @ b``, of many rows in parts: ``[N, ..., m], [N, ..., n] -> [..., m, n]``."""
    if a.dim() == 3 and a.size(1) == 1:
        return transposed_matmul(a[:, 0], b[:, 0])[None]
    rows, parts = a.size(0), FEW_PARTS if a.dim() == 2 and a.size(1) * b.size(1) > LARGE else PARTS
    whole = rows // parts * parts
    if rows < (TALL if a.dim() == 2 else TALL_TOWER):
        return _product(a[None], b[None])
    total = _product(_split(a[:whole], parts), _split(b[:whole], parts))
    return total if rows == whole else total + _product(a[None, whole:], b[None, whole:])


def column_sums(x: Tensor) -> Tensor:
    """``[N, C] -> [C]``: a product with ones sums columns faster than a reduction does."""
    return transposed_matmul(x.new_ones(x.size(0), 1), x)[0]


def _split(x: Tensor, parts: int) -> Tensor:
    """Rows in parts: ``[P N, ..., m] -> [P, N, ..., m]``.

    With towers a part takes every P-th row: then parts and towers lie at equal distances, as one batch of products.
    """
    if x.dim() == 2:
        return x.reshape(parts, len(x) // parts, x.size(1))
    return x.reshape(len(x) // parts, parts, *x.shape[1:]).transpose(0, 1)


def _product(a: Tensor, b: Tensor) -> Tensor:
    """``[P, N, ..., m], [P, N, ..., n] -> [..., m, n]``, summed over P and N."""
    products = torch.matmul(a.movedim(1, -1), b.movedim(1, -2))
    return products[0] if len(products) == 1 else products.sum(dim=0)
