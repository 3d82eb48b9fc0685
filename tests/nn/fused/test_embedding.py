"""Rows of a table, and gradients of the table by products instead of sorting."""

import pytest
import torch
from torch import nn

from dgn.nn.fused.embedding import FEW_TYPES, SMALL_TABLE, _LookUp, embed_sum

DEVICES = [
    "cpu",
    pytest.param(
        "cuda",
        marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")],
    ),
]


def categories(rows, sizes, device):
    """Rows of a table that holds one part for each column."""
    draw = torch.Generator().manual_seed(rows)
    columns = [torch.randint(size, (rows,), generator=draw) for size in sizes]
    first = [sum(sizes[:number]) for number in range(len(sizes))]
    return torch.stack([column + start for column, start in zip(columns, first, strict=True)], dim=1).to(device)


def gradient(function, rows, table):
    table.grad = None
    out = function(rows, table)
    (out * torch.linspace(-1, 1, out.numel(), dtype=out.dtype, device=out.device).view(out.shape)).sum().backward()
    return [out.detach(), table.grad.clone()]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("rows", [0, 1, 500])
@pytest.mark.parametrize("sizes", [(FEW_TYPES + 1,), (119, 4, 12), (3, 2), (SMALL_TABLE + 1,)])
def test_sums_of_rows_and_the_gradient_of_the_table(rows, sizes, dtype, device):
    table = torch.randn(sum(sizes), 7, dtype=dtype, device=device, requires_grad=True)
    given = categories(rows, sizes, device)
    plain = gradient(lambda rows, table: nn.functional.embedding(rows, table).sum(dim=1), given, table)
    close = {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(gradient(embed_sum, given, table), plain, **close)
    torch.testing.assert_close(gradient(_LookUp.apply, given, table), plain, **close)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("kinds", [1, 3, 28, FEW_TYPES])
@pytest.mark.parametrize("rows", [1, 64, 1000])
def test_few_kinds_are_summed_by_one_kernel_with_the_same_bits_each_time(rows, kinds):
    table = torch.randn(kinds, 33, device="cuda", requires_grad=True)
    given = categories(rows, (kinds,), "cuda")
    plain = gradient(lambda rows, table: nn.functional.embedding(rows, table).sum(dim=1), given, table)
    found = [gradient(embed_sum, given, table) for _ in range(3)]
    torch.testing.assert_close(found[0], plain, rtol=1e-4, atol=1e-4)
    assert all(torch.equal(found[0][1], again[1]) for again in found)


def test_second_derivatives():
    rows, table = categories(6, (3,), "cpu"), torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda table: _LookUp.apply(rows, table), table)
