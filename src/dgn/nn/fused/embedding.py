"""Rows of a table, and the gradient of the table without sorting."""

from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from dgn.aggregation.custom_op import FEW_TYPES

SMALL_TABLE = 512  # rows of a table whose gradient is a matrix product


class _LookUp(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.num_rows = table.size(0)
        if table.is_cuda and rows.numel() and table.dtype == torch.float32 and find_spec("triton") is not None:
            from dgn.kernels.triton.embedding import sum_rows

            return sum_rows(rows, table)
        return table[rows[:, 0]] if rows.size(1) == 1 else nn.functional.embedding(rows, table).sum(dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (rows,) = ctx.saved_tensors
        few = rows.size(1) == 1 and ctx.num_rows <= FEW_TYPES and not torch.is_grad_enabled()
        if few and find_spec("triton") is not None:
            from dgn.kernels.triton.segment_sum import sum_by_type

            return None, sum_by_type(grad, rows[:, 0], ctx.num_rows)
        # Columns have rows of their own in the table: no row of it is named twice.
        named = grad.new_zeros(rows.size(0), ctx.num_rows).scatter_(1, rows, 1.0)
        return None, named.T @ grad


def embed_sum(rows: Tensor, table: Tensor) -> Tensor:
    """The sum of some rows of a table for each node: ``[N, columns], [R, C] -> [N, C]``.

    On a GPU the gradient of a small table needs no sorting, and has the same bits on every run.
    """
    small = table.is_cuda and table.size(0) <= SMALL_TABLE and not torch.compiler.is_compiling()
    if small:
        out: Tensor = _LookUp.apply(rows, table)  # type: ignore[no-untyped-call]
        return out
    return nn.functional.embedding(rows, table).sum(dim=1)
