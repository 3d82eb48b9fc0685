"""Weight gradients on a side stream."""

import torch

from dgn.nn.fused.wgrad_stream import GradAccumulator, defer_grad


class Reader(torch.autograd.Function):
    """``x @ table.T``, which gives the gradient of the table to those who gather it."""

    @staticmethod
    def forward(ctx, x, token, table, beside):
        ctx.save_for_backward(x, token)
        ctx.table, ctx.beside = table, beside
        return x @ table.T

    @staticmethod
    def backward(ctx, grad):
        x, token = ctx.saved_tensors
        ctx.beside.add(grad.T, x)
        return grad @ ctx.table, token.new_empty(0), None, None


def read(layers):
    generator = torch.Generator().manual_seed(0)
    x, table = (torch.randn(3, 3, generator=generator).requires_grad_() for _ in range(2))
    beside = GradAccumulator()
    token, y = defer_grad(table, beside), x
    for _ in range(layers):
        y = Reader.apply(y, token, table.detach(), beside)
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


def test_a_way_back_to_other_inputs_leaves_nothing_for_the_next_one():
    x, table, loss = read(2)
    torch.autograd.grad(loss, x, retain_graph=True)
    for _ in range(2):
        torch.testing.assert_close(torch.autograd.grad(loss, table, retain_graph=True)[0], by_definition(2))
