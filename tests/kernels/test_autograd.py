"""A once-differentiable function refuses second derivatives, however they are requested."""

import pytest
import torch

from dgn.kernels.autograd import once_differentiable


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 2 * x * grad


def test_first_derivatives_are_those_of_the_function():
    x = torch.tensor([3.0, 1.0], requires_grad=True)
    Square.apply(x).sum().backward()
    assert x.grad.tolist() == [6, 2]


@pytest.mark.parametrize("squared", [True, False])
def test_second_derivatives_are_refused(squared):
    x = torch.tensor([3.0, 1.0], requires_grad=True)
    y = Square.apply(x)
    with pytest.raises(RuntimeError, match="backend='reference'"):
        torch.autograd.grad((y * y if squared else y).sum(), x, create_graph=True)
