"""Adding a bias to every row."""

from typing import Any

import torch
from torch import Tensor


class _AddBias(torch.autograd.Function):
    """On a GPU a product with ones sums columns faster than a reduction does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor) -> Tensor:  # noqa: ARG004, the signature of autograd
        return x + bias

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:  # noqa: ARG004
        return grad, (grad.new_ones(1, grad.size(0)) @ grad)[0]


def add_bias(x: Tensor, bias: Tensor) -> Tensor:
    """``x + bias``, with a faster way back on a GPU.

    Shapes:
        ``x`` [N, C], ``bias`` [C].
    """
    if x.is_cuda and x.dtype == bias.dtype and not torch.compiler.is_compiling():
        out: Tensor = _AddBias.apply(x, bias)  # type: ignore[no-untyped-call]
        return out
    return x + bias.to(x.dtype)
