"""Sums of rows of a table, and the gradient of the table by a product instead of sorting."""

import pytest
import torch
from torch import nn

from dgn.nn.encoders import SMALL_TABLE, _SumRows

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
@pytest.mark.parametrize("sizes", [(33,), (119, 4, 12), (3, 2), (SMALL_TABLE + 1,)])
def test_sums_of_rows_and_the_gradient_of_the_table(rows, sizes, dtype, device):
    table = torch.randn(sum(sizes), 7, dtype=dtype, device=device, requires_grad=True)
    codes = categories(rows, sizes, device)
    plain = gradient(lambda rows, table: nn.functional.embedding(rows, table).sum(dim=1), codes, table)
    close = {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    torch.testing.assert_close(gradient(_SumRows.apply, codes, table), plain, **close)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_the_gradient_of_a_table_has_the_same_bits_each_time():
    table = torch.randn(28, 33, device="cuda", requires_grad=True)
    codes = categories(1000, (28,), "cuda")
    gradients = [gradient(_SumRows.apply, codes, table) for _ in range(3)]
    assert all(torch.equal(gradients[0][1], again[1]) for again in gradients)


def test_second_derivatives():
    rows, table = categories(6, (3,), "cpu"), torch.randn(3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(lambda table: _SumRows.apply(rows, table), table)
