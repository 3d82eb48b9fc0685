"""Soft groups of eigenvalues: equal eigenvalues have equal membership, and membership is continuous."""

import pytest
import torch

from dgn.spectral.degeneracy import relative_gap
from dgn.spectral.grouping import WIDTH, group_around

NAN = torch.nan


def gaps(*values, size=None):
    """The relative gaps of eigenvalues, of which the last is that beyond the columns; NaN for none."""
    size = len(values) + 1 if size is None else size
    return torch.from_numpy(
        relative_gap(torch.tensor([values], dtype=torch.float64).numpy(), torch.tensor([size]).numpy())
    )[0]


def group(direction, *values, **options):
    return group_around(gaps(*values, **options), direction)


@pytest.mark.parametrize("direction", [1, 2, 3])
def test_a_separate_eigenvalue_is_its_own_group(direction):
    result = group(direction, 1.0, 2.0, 4.0, 8.0)
    assert result.member.tolist() == [float(k + 1 == direction) for k in range(3)]
    assert result.strength == 1


def test_membership_equals_the_formula():
    values, beyond, centre = [1.0, 1.04, 1.07, 1.3], 1.35, 1.04
    result = group(2, *values, beyond)
    for member, value in zip(result.member.tolist(), values, strict=True):
        near = max(0, 1 - (1 - min(value, centre) / max(value, centre)) / WIDTH)
        assert member == pytest.approx(near * min(1, (1 - value / beyond) / WIDTH), abs=1e-14)
    assert result.strength == result.member[1]


def test_equal_eigenvalues_are_members_of_the_same_groups():
    member = torch.stack([group(k, 1.0, 1.0, 1.03, 1.03, 2.0).member for k in (1, 2, 3, 4)])
    assert torch.equal(member[0], member[1])
    assert torch.equal(member[2], member[3])
    torch.testing.assert_close(member, member.T)
    assert member[0].tolist() == pytest.approx([1, 1, 0.7087378640776698, 0.7087378640776698])


def test_a_group_cut_by_the_last_column_has_strength_0():
    assert group(1, 1.0, 1.0, 1.0).strength == 0
    assert not group(1, 1.0, 1.0, 1.0).member.any()
    assert group(1, 1.0, 1.0, 1.05).strength == pytest.approx((1 - 1 / 1.05) / WIDTH)


def test_a_group_at_the_end_of_the_spectrum_is_complete():
    result = group(1, 3.0, 3.0, NAN, NAN, size=3)  # a triangle
    assert (result.member.tolist(), result.strength.item()) == ([1, 1, 0], 1)
    assert group(3, 3.0, 3.0, NAN, NAN, size=3).strength == 0


def test_membership_is_continuous():
    """Eigenvalues that move by a millionth move a membership by a millionth over the width, also where they cross."""
    moving = torch.linspace(0.8, 1.6, 4001, dtype=torch.float64)
    for direction in (1, 2, 3):
        values = torch.stack([torch.ones_like(moving), moving, torch.full_like(moving, 1.3), moving * 0 + 1.5])
        gap = torch.from_numpy(relative_gap(values.sort(dim=0).values.T.numpy(), torch.full((4001,), 9).numpy()))
        result = group_around(gap, direction)
        step = 0.8 / 4000
        assert result.strength.diff().abs().max() <= 3 * step / WIDTH
        of_one = torch.where(values[1] < 1, result.member[:, 1], result.member[:, 0])  # of the eigenvalue that is 1
        assert of_one.diff().abs().max() <= 3 * step / WIDTH


@pytest.mark.parametrize(
    ("direction", "width", "message"),
    [
        (0, 0.1, "direction: expected 1 to 2, a column of gap"),
        (3, 0.1, "got 3"),
        (1, 0.0, "width: expected a relative gap"),
    ],
)
def test_meaningless_groups_are_refused(direction, width, message):
    with pytest.raises(ValueError, match=message):
        group_around(torch.zeros(2), direction, width)
