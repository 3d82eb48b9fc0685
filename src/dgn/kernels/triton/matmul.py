"""Launching the products of many rows with small matrices."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
from torch import Tensor

from dgn.kernels.triton.matmul_kernels import multiply_rows, sum_products
from dgn.kernels.triton.segment_sum import sum_parts

# Measured on an H200 with widths of 45 and 90.
PRODUCT = {"BLOCK_N": 32, "BLOCK_M": 64, "BLOCK_K": 16, "num_stages": 2}
SUM = {"BLOCK_N": 16, "BLOCK_M": 32, "num_stages": 2}
ROWS_PER_PART, MOST_PARTS = 64, 64  # in which the rows of a sum are taken


def precision() -> str:
    """How exact products are: as single precision, unless PyTorch was told that less is enough."""
    return "tf32x3" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def multiply(x: Tensor, matrix: Tensor, bias: Tensor) -> Tensor:
    """``x @ matrix`` with a bias for the last columns.

    Shapes:
        ``x`` [N, K], ``matrix`` [K, M] in any order of memory, ``bias`` [B] for the last B columns; returns [N, M].
    """
    (inner, columns), rows = matrix.shape, x.size(0)
    out = x.new_empty(rows, columns)
    multiply_rows[(triton.cdiv(rows, PRODUCT["BLOCK_N"]), triton.cdiv(columns, PRODUCT["BLOCK_M"]))](
        x, matrix, bias, out, rows, columns, inner, x.stride(0), *matrix.stride(), columns - bias.numel(),
        PRECISION=precision(), **PRODUCT,
    )  # fmt: skip
    return out


class Pair(NamedTuple):
    """A sum of products over rows: ``left.T @ right`` [L, R], and the sums of the columns of ``left`` [L].

    Shapes:
        ``left`` [N, L] and ``right`` [N, R], with rows of any stride.
    """

    left: Tensor
    right: Tensor


def sum_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """The sums of several pairs over the same rows; rows are taken in parts, these are added in a fixed order."""
    rows = pairs[0].left.size(0)
    per_part = ROWS_PER_PART * triton.cdiv(rows, ROWS_PER_PART * MOST_PARTS)
    shapes = [(pair.left.size(1), pair.right.size(1)) for pair in pairs]
    sizes = [left * (right + 1) for left, right in shapes]
    space = pairs[0].left.new_empty(triton.cdiv(rows, per_part), sum(sizes))
    for (left, right), part in zip(pairs, torch.split(space, sizes, dim=1), strict=True):
        grid = len(space), *(triton.cdiv(t.size(1), SUM["BLOCK_M"]) for t in (left, right))
        sum_products[grid](
            left, right, part, rows, left.size(1), right.size(1), left.stride(0), right.stride(0), per_part,
            part.stride(0), PRECISION=precision(), **SUM,
        )  # fmt: skip
    whole, found = sum_parts(space), []
    for (left_size, right_size), piece in zip(shapes, torch.split(whole, sizes), strict=True):
        product, sums = torch.split(piece, [left_size * right_size, left_size])
        found.append(Pair(product.view(left_size, right_size), sums))
    return found
