"""Sums of consecutive rows and of rows of one type by kernels equal those of plain PyTorch."""

import pytest
import torch

from tests.interpreter import DEVICE, check_in_interpreter, somewhere

pytest.importorskip("triton")

TYPES = [(200, 5, 3), (64, 1, 70), (1, 28, 16), (130, 32, 65), (0, 4, 8), (90, 40, 5)]
SIZES = [[3, 0, 17, 1, 40], [0], [0, 0, 5], [16], [1] * 30]


def draw(*shape, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))).to(DEVICE, dtype)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("rows", "num_types", "channels"), TYPES)
def test_kernel_rows_of_one_type(rows, num_types, channels, moved, dtype):
    from dgn.kernels.triton.segment_sum import sum_by_type

    values, generator = draw(rows, channels, dtype=dtype), torch.Generator().manual_seed(0)
    row_type = torch.randint(num_types, (rows,), generator=generator).to(DEVICE)
    place = torch.randperm(rows, generator=generator).to(DEVICE, torch.int32) if moved else None
    result = sum_by_type(values, row_type, num_types, place)
    rows_in_order = values if place is None else values[place.long()]
    expected = torch.zeros(num_types, channels, dtype=torch.float64, device=DEVICE).index_add(
        0, row_type, rows_in_order.double()
    )
    torch.testing.assert_close(result, expected.to(dtype), rtol=1e-5, atol=1e-5)


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("channels", [1, 16, 70])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("mean", [False, True])
def test_kernel_consecutive_rows_and_their_gradient(sizes, channels, mean):
    from dgn.kernels.triton.segment_sum import SegmentSum

    count = torch.tensor(sizes)
    pointer = torch.nn.functional.pad(count.cumsum(0), (1, 0)).to(DEVICE)
    segment = torch.arange(len(sizes)).repeat_interleave(count).to(DEVICE)
    values, weight = draw(sum(sizes), channels).requires_grad_(), draw(len(sizes), channels)
    result = SegmentSum.apply(values, pointer, segment, mean)
    expected = torch.zeros(len(sizes), channels, device=DEVICE).index_add(0, segment, values.detach())
    share = (count.clamp(min=1) if mean else torch.ones_like(count)).to(DEVICE)[:, None]
    expected = expected / share
    torch.testing.assert_close(result, expected, rtol=1e-5, atol=1e-5)
    (result * weight).sum().backward()
    torch.testing.assert_close(values.grad, (weight / share)[segment], rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_the_kernels_in_the_interpreter():
    check_in_interpreter(__file__, "kernel_", 4 * len(TYPES) + 6 * len(SIZES))
