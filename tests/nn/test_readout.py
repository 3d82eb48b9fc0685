"""The readout's perceptron: one kernel against plain PyTorch in double precision."""

import pytest
import torch

from dgn.nn.readout import Head
from tests.interpreter import DEVICE, check_in_interpreter, somewhere

CASES = [(3, 8, 8, 1), (130, 45, 45, 1), (40, 90, 45, 12)]  # the second in more than one part


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize(("rows", "channels", "width", "targets"), CASES)
def test_the_kernel_equals_the_definition(rows, channels, width, targets):
    torch.manual_seed(rows)
    x, weight = torch.randn(rows, channels), torch.randn(rows, targets)
    head = Head(channels, width, targets)
    found = []
    for dtype in (torch.float32, torch.float64):
        twin = Head(channels, width, targets).to(DEVICE, dtype)
        twin.load_state_dict(head.state_dict())
        leaf = x.to(DEVICE, dtype, copy=True).requires_grad_()
        out = twin.fused(leaf) if dtype == torch.float32 else torch.nn.Sequential.forward(twin, leaf)
        (out * weight.to(out)).sum().backward()
        found.append([out.detach(), leaf.grad, *(parameter.grad for parameter in twin.parameters())])
    for got, expected in zip(*found, strict=True):
        torch.testing.assert_close(got, expected.float(), rtol=2e-5, atol=2e-5)


@pytest.mark.slow
def test_the_kernel_in_the_interpreter():
    check_in_interpreter(__file__, "definition", len(CASES))
