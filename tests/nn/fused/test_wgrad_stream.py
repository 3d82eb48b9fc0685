"""Weight gradients on a side stream."""

import torch

from dgn.nn.fused.wgrad_stream import GradAccumulator, defer_grad


class Reader(torch.autograd.Function):
    """``x @ table.T``, which gives the gradient of the table to those who gather it."""

    @staticmethod
    def forward(ctx, x, anchor, table, accumulator):
        ctx.save_for_backward(x, anchor)
        ctx.table, ctx.accumulator = table, accumulator
        return x @ table.T

    @staticmethod
    def backward(ctx, grad):
        x, anchor = ctx.saved_tensors
        ctx.accumulator.add(grad.T, x)
        return grad @ ctx.table, anchor.new_empty(0), None, None


def read(layers):
    generator = torch.Generator().manual_seed(0)
    x, table = (torch.randn(3, 3, generator=generator).requires_grad_() for _ in range(2))
    accumulator = GradAccumulator()
    anchor, y = defer_grad(table, accumulator), x
    for _ in range(layers):
        y = Reader.apply(y, anchor, table.detach(), accumulator)
    return x, table, y.square().sum()


def by_definition(layers):
    x, table, _ = read(0)
    y = x
    for _ in range(layers):
        y = y @ table.T
    return torch.autograd.grad(y.square().sum(), table)[0]


def test_parts_of_several_layers_are_summed_up():
    _, table, loss = read(2)
    torch.testing.assert_close(torch.autograd.grad(loss, table)[0], by_definition(2))


def test_a_backward_pass_to_other_inputs_leaves_nothing_behind():
    x, table, loss = read(2)
    torch.autograd.grad(loss, x, retain_graph=True)
    for _ in range(2):
        torch.testing.assert_close(torch.autograd.grad(loss, table, retain_graph=True)[0], by_definition(2))
