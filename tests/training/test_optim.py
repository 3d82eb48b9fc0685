"""Losses by one kernel against the objectives."""

import pytest
import torch

from dgn.training.objectives import make_objective
from dgn.training.optim import entry_gradient
from tests.interpreter import DEVICE, check_in_interpreter, somewhere


@pytest.mark.gpu
@somewhere
@pytest.mark.parametrize("name", ["regression", "multi-label"])
@pytest.mark.parametrize(("rows", "targets"), [(5, 1), (129, 12)])
def test_losses_by_one_kernel_equal_the_objective(name, rows, targets):
    generator = torch.Generator().manual_seed(rows)
    prediction = (30 * torch.randn(rows, targets, generator=generator)).to(DEVICE)
    target = torch.randint(-1, 2, (rows, targets), generator=generator).float()
    target[torch.rand(rows, targets, generator=generator) < 0.2] = torch.nan
    weight = (torch.arange(rows) < rows - 2).float().to(DEVICE)
    prediction[-1] = torch.inf  # padding may hold anything
    target, terms = target.to(DEVICE), torch.tensor([1.0, 2.0], device=DEVICE)
    gradient = entry_gradient(name, prediction, target, weight, terms, 1e-12)
    leaf = prediction.double().requires_grad_()
    numerator, denominator = make_objective(name).loss(leaf, target.double(), weight.double())
    (numerator / denominator).backward()
    expected = torch.stack([numerator.detach() + 1, denominator + 2]).float()
    torch.testing.assert_close(terms, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient, leaf.grad.float(), rtol=1e-5, atol=1e-7)


@pytest.mark.gpu
@somewhere
def test_a_batch_without_labels_has_no_gradient():
    terms = torch.zeros(2, device=DEVICE)
    nothing = torch.full((3, 1), torch.nan, device=DEVICE)
    ones = torch.ones(3, 1, device=DEVICE)
    assert not entry_gradient("regression", ones, nothing, ones[:, 0], terms, 1e-12).any()
    assert terms.tolist() == [0.0, 0.0]


@pytest.mark.slow
def test_the_kernels_in_the_interpreter():
    check_in_interpreter(__file__, "not interpreter", 5)
