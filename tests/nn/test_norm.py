"""Batch norm over real rows: as PyTorch's over those rows alone."""

import pytest
import torch
from torch import nn

from dgn.nn.norm import BatchNorm


def make_pair(channels=4):
    torch.manual_seed(0)
    ours, theirs = BatchNorm(channels).double(), nn.BatchNorm1d(channels).double()
    with torch.no_grad():
        ours.weight.uniform_(0.5, 2)
        ours.bias.normal_()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


def padded(rows=20, channels=4):
    """Numbers with padding among them that would spoil any statistic."""
    draw = torch.Generator().manual_seed(1)
    x = torch.randn(rows, channels, generator=draw, dtype=torch.float64) + 100
    real = (torch.rand(rows, 1, generator=draw) > 0.3).double()
    return torch.where(real > 0, x, 1e6), real


def test_padding_does_not_count_in_values_gradients_and_memory():
    ours, theirs = make_pair()
    x, real = padded()
    chosen = real[:, 0] > 0
    weight = torch.randn(20, 4, dtype=torch.float64)
    for _ in range(3):
        mine, plain = x.clone().requires_grad_(), x[chosen].clone().requires_grad_()
        out, expected = ours(mine, real), theirs(plain)
        torch.testing.assert_close(out[chosen], expected)
        (out * weight * real).sum().backward()
        (expected * weight[chosen]).sum().backward()
        torch.testing.assert_close(mine.grad[chosen], plain.grad)
    torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()))
    grads = ({name: parameter.grad for name, parameter in norm.named_parameters()} for norm in (ours, theirs))
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize("training", [True, False])
def test_without_padding_it_is_pytorchs(training):
    ours, theirs = make_pair()
    x, _ = padded()
    assert torch.equal(ours.train(training)(x), theirs.train(training)(x))
    torch.testing.assert_close(dict(ours.named_buffers()), dict(theirs.named_buffers()), rtol=0, atol=0)


def test_scoring_reads_the_memory_whatever_is_real():
    ours, theirs = make_pair()
    x, real = padded()
    assert torch.equal(ours.eval()(x, real), theirs.eval()(x))
    assert int(ours.num_batches_tracked) == 0


def test_one_real_row_becomes_the_bias():
    ours, _ = make_pair()
    x, _ = padded(3)
    real = torch.tensor([[0.0], [1.0], [0.0]])
    assert torch.equal(ours(x, real)[1], ours.bias)
    assert ours.running_var.isfinite().all()


def test_single_precision_does_not_cancel():
    x, real = padded()
    x = torch.where(real > 0, x * 10, 0).float()  # a mean far above the deviation
    out = BatchNorm(4)(x, real)[real[:, 0] > 0]
    torch.testing.assert_close(out.var(dim=0, unbiased=False), torch.ones(4), rtol=1e-3, atol=0)


def test_where_no_row_counts_nothing_is_remembered():
    norm = BatchNorm(2)
    before = {name: value.clone() for name, value in norm.state_dict().items() if "running" in name}
    norm(torch.randn(3, 2), torch.zeros(3, 1))
    assert all(torch.equal(norm.state_dict()[name], value) for name, value in before.items())


def test_without_momentum_statistics_are_the_mean_over_batches():
    ours, theirs = make_pair()
    ours.momentum = theirs.momentum = None
    for _ in range(3):
        x = torch.randn(9, 4, dtype=torch.float64) + 5
        ours(x, torch.ones(9, 1))
        theirs(x)
    for name, expected in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_rows_are_counted_in_single_precision(dtype):
    x = (torch.randn(70_000, 2, generator=torch.Generator().manual_seed(0)) + 1).to(dtype)  # more than half can count
    ours, theirs = BatchNorm(2), nn.BatchNorm1d(2)
    out, expected = ours(x, torch.ones(len(x), 1)), theirs(x.float())
    assert out.dtype == dtype
    torch.testing.assert_close(out, expected.to(dtype), rtol=1e-2, atol=1e-3)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-4, atol=1e-4)
