"""Stacking: how much each kind of member counts in a prediction, by its errors on molecules it did not learn from."""

import torch
from torch import Tensor

PRIOR = 60.0  # molecules that speak for equal shares
STEP = 0.05  # of the shares that are tried


def choose_shares(predictions: Tensor, truth: Tensor) -> Tensor:
    r"""The shares of members in the prediction of each target, 0 or more and of sum 1: [M, V, T], [V, T] -> [M, T].

    .. math:: \min_a\; \sum_i \Bigl(\sum_m a_m p_{mi} - y_i\Bigr)^2 + n s^2 \sum_m (a_m - 1 / M)^2

    over shares in steps of ``STEP``, with n = ``PRIOR`` and :math:`s^2` the mean square error of equal shares.
    Molecules without a value or a prediction (NaN) are left out; without any, shares are equal.

    Laws: members in another order have their shares in that order; the unit of the target does not matter.

    >>> truth = torch.arange(5000.0)[:, None]
    >>> right, wrong = truth + 1, -truth
    >>> choose_shares(torch.stack([right, wrong]), truth).flatten().tolist()
    [1.0, 0.0]
    >>> choose_shares(torch.stack([right, wrong])[:, :3], truth[:3] * torch.nan).flatten().tolist()
    [0.5, 0.5]
    """
    members = len(predictions)
    error = (predictions - truth).double()
    known = error.isfinite().all(dim=0)
    error = torch.where(known, error, 0.0)
    products = torch.einsum("mvt,nvt->tmn", error, error)
    equal = torch.full((members,), 1 / members, dtype=torch.float64)
    tried = torch.cat([equal[None], compositions(round(1 / STEP), members) * STEP])
    squares = torch.einsum("sm,tmn,sn->st", tried, products, tried)
    noise = squares[0] / known.sum(dim=0).clamp(min=1)
    loss = squares + PRIOR * noise * (tried - equal).square().sum(dim=1)[:, None]
    return tried[loss.argmin(dim=0)].T


def compositions(total: int, parts: int) -> Tensor:
    """All ways to write a total as a sum of integers from 0, in order: float64 [S, parts].

    >>> compositions(2, 2).tolist()
    [[0.0, 2.0], [1.0, 1.0], [2.0, 0.0]]
    """
    axes = [torch.arange(total + 1, dtype=torch.float64)] * (parts - 1)
    first = torch.cartesian_prod(*axes).reshape(-1, parts - 1)
    rest = total - first.sum(dim=1, keepdim=True)
    return torch.cat([first, rest], dim=1)[rest[:, 0] >= 0]
