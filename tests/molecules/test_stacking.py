"""Shares of members: the minimum over a grid, pulled towards equal shares, blind to order and unit."""

import pytest
import torch

from dgn.molecules.stacking import PRIOR, STEP, choose_shares, compositions

GENERATOR = torch.Generator().manual_seed(0)


def predictions(molecules: int, noise: tuple[float, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    truth = torch.randn(molecules, 2, dtype=torch.float64, generator=GENERATOR)
    errors = torch.randn(len(noise), molecules, 2, dtype=torch.float64, generator=GENERATOR)
    return truth + errors * torch.tensor(noise, dtype=torch.float64)[:, None, None], truth


def test_many_molecules_choose_the_shares_of_the_smallest_error() -> None:
    members, truth = predictions(20_000, (1.0, 2.0, 4.0))
    inverse = torch.tensor([1.0, 1 / 4, 1 / 16], dtype=torch.float64)  # of the variances: the best shares
    for shares in choose_shares(members, truth).T:
        torch.testing.assert_close(shares, inverse / inverse.sum(), atol=STEP, rtol=0)


def test_it_is_the_minimum_over_all_steps() -> None:
    members, truth = predictions(60, (1.0, 1.5, 2.0))
    equal = torch.full((3,), 1 / 3, dtype=torch.float64)

    def loss(shares: torch.Tensor, target: int) -> float:
        def squares(a: torch.Tensor) -> float:
            return float(((a[:, None] * members[..., target]).sum(dim=0) - truth[:, target]).square().sum())

        return squares(shares) + PRIOR * squares(equal) / 60 * float((shares - equal).square().sum())

    tried = [row / 20 for row in compositions(20, 3)] + [equal]
    for target, shares in enumerate(choose_shares(members, truth).T):
        best = min(tried, key=lambda one: loss(one, target))
        torch.testing.assert_close(shares, best)


def test_few_molecules_move_equal_shares_little() -> None:
    members, truth = predictions(6, (1.0, 3.0, 3.0))
    assert (choose_shares(members, truth) - 1 / 3).abs().max() < 0.15
    many, of_many = predictions(6000, (1.0, 3.0, 3.0))
    assert choose_shares(many, of_many)[0].min() > 0.7


def test_order_and_unit_do_not_matter_and_what_is_unknown_is_left_out() -> None:
    members, truth = predictions(300, (1.0, 2.0, 3.0))
    shares = choose_shares(members, truth)
    torch.testing.assert_close(shares.sum(dim=0), torch.ones(2, dtype=torch.float64))
    torch.testing.assert_close(choose_shares(members[[2, 0, 1]], truth), shares[[2, 0, 1]])
    torch.testing.assert_close(choose_shares(1000 * members, 1000 * truth), shares)
    more, values = torch.cat([members, members], dim=1), torch.cat([truth, truth * torch.nan])
    torch.testing.assert_close(choose_shares(more, values), shares)
    more[1, 300:] = torch.nan
    torch.testing.assert_close(choose_shares(more, torch.cat([truth, truth])), shares)


@pytest.mark.parametrize("parts", [2, 3])
def test_compositions_are_all_and_different(parts: int) -> None:
    rows = [tuple(row) for row in compositions(4, parts).tolist()]
    assert len(set(rows)) == len(rows) == {2: 5, 3: 15}[parts]
    assert all(sum(row) == 4 for row in rows)
