"""Sums of rows by kernels, against plain PyTorch: of neighbouring rows, of rows of one kind, and weighted."""

import pytest
import torch

from tests.interpreter import DEVICE, check_in_interpreter, somewhere

pytest.importorskip("triton")

KINDS = [(200, 5, 3), (64, 1, 70), (1, 28, 16), (130, 32, 65), (0, 4, 8), (90, 40, 5)]
SIZES = [[3, 0, 17, 1, 40], [0], [0, 0, 5], [16], [1] * 30]


def draw(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE, dtype)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("rows", "kinds", "channels"), KINDS)
def test_kernel_rows_of_one_kind(rows, kinds, channels, moved, dtype):
    from dgn.kernels.triton.segment_sum import sum_by_type

    values, generator = draw(rows, channels, dtype=dtype), torch.Generator().manual_seed(0)
    kind = torch.randint(kinds, (rows,), generator=generator).to(DEVICE)
    place = torch.randperm(rows, generator=generator).to(DEVICE, torch.int32) if moved else None
    found = sum_by_type(values, kind, kinds, place)
    given = values if place is None else values[place.long()]
    expected = torch.zeros(kinds, channels, dtype=torch.float64, device=DEVICE).index_add(0, kind, given.double())
    torch.testing.assert_close(found, expected.to(dtype), rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("channels", [1, 16, 70])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mean", [False, True])
def test_kernel_neighbouring_rows_and_their_gradient(sizes, channels, mean):
    from dgn.kernels.triton.segment_sum import SegmentSum

    count = torch.tensor(sizes)
    pointer = torch.nn.functional.pad(count.cumsum(0), (1, 0)).to(DEVICE)
    number = torch.arange(len(sizes)).repeat_interleave(count).to(DEVICE)
    values, weight = draw(sum(sizes), channels).requires_grad_(), draw(len(sizes), channels)
    found = SegmentSum.apply(values, pointer, number, mean)
    expected = torch.zeros(len(sizes), channels, device=DEVICE).index_add(0, number, values.detach())
    share = (count.clamp(min=1) if mean else torch.ones_like(count)).to(DEVICE)[:, None]
    expected = expected / share
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    (found * weight).sum().backward()
    torch.testing.assert_close(values.grad, (weight / share)[number], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_the_kernels_in_the_interpreter():
    check_in_interpreter(__file__, "kernel_", 4 * len(KINDS) + 6 * len(SIZES))
