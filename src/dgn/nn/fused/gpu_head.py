"""Launching the kernels of the readout's perceptron."""

from typing import Any

import torch
import triton
from torch import Tensor

from dgn.kernels.autograd import once_differentiable
from dgn.kernels.triton.head import head_backward, head_forward
from dgn.kernels.triton.matmul import Pair, precision, sum_pairs
from dgn.nn.fused.wgrad_stream import current_wgrad_stream, on

BLOCK_N = 16


class Head(torch.autograd.Function):
    """Three linear maps with ReLUs between them: [N, in] -> [N, targets]."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, *maps: Tensor) -> Tensor:
        x = x.contiguous()
        hidden1, hidden2, out = (x.new_empty(x.size(0), bias.numel()) for bias in maps[1::2])
        sides = _sides(x, maps)
        sides.pop("BLOCK0")
        head_forward[(triton.cdiv(x.size(0), BLOCK_N),)](
            x, *maps, hidden1, hidden2, out, *_shape(x, maps), num_stages=2, **sides
        )
        ctx.save_for_backward(x, hidden1, hidden2, *maps)
        ctx.side = current_wgrad_stream()
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, hidden1, hidden2, *maps = ctx.saved_tensors
        grad, weights = grad.contiguous(), maps[::2]
        grad1, grad2, out = (torch.empty_like(t) for t in (hidden1, hidden2, x))
        head_backward[(triton.cdiv(x.size(0), BLOCK_N),)](
            grad, *weights, hidden1, hidden2, grad1, grad2, out, *_shape(x, maps), **_sides(x, maps)
        )
        pairs = [Pair(grad1, x), Pair(grad2, hidden1), Pair(grad, hidden2)]
        with on(ctx.side, *(t for pair in pairs for t in pair)):
            found = sum_pairs(pairs)
        return out, *(gradient for pair in found for gradient in pair)


def _shape(x: Tensor, maps: Any) -> tuple[int, ...]:
    return x.size(0), x.size(1), *(bias.numel() for bias in maps[1::2])


def _sides(x: Tensor, maps: Any) -> dict[str, Any]:
    sides = {f"BLOCK{k}": triton.next_power_of_2(max(size, 16)) for k, size in enumerate(_shape(x, maps)[1:])}
    return {"PRECISION": precision(), "BLOCK_N": BLOCK_N, **sides}
