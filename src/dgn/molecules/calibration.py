"""Which validation molecules choose the epochs of which members, so that others remain to calibrate intervals.

A molecule that chose the epoch of a network has smaller errors than new ones: intervals calibrated on it would be too
narrow.
Half of the members choose on one half of the validation split, half of them on the other. The errors of each half are
those of the members that did not choose on it (cross-conformal prediction, Vovk 2015).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.splits import shuffled_groups

UNUSED = 3  # split of a validation molecule that does not choose


class Fold(NamedTuple):
    """The seeds of some members, and the molecules that choose their epochs, [R] bool."""

    seeds: tuple[int, ...]
    chooses: Tensor

    def assign(self, split: Tensor) -> Tensor:
        """The split [R] in which only these molecules are for validation."""
        return torch.where((split == 1) & ~self.chooses, UNUSED, split)


def make_folds(keys: Sequence[str], split: Tensor, seeds: Sequence[int], search: bool = False) -> list[Fold]:
    """Two folds: every second member, and a half of the validation split in which duplicates stay together.

    A single member, and all members after a ``search`` that chose their settings, choose on the first half.

    >>> folds = make_folds("abccde", torch.tensor([0, 1, 1, 1, 1, 2]), (7, 8, 9))
    >>> [(fold.seeds, fold.chooses.nonzero()[:, 0].tolist()) for fold in folds]
    [((7, 9), [1, 4]), ((8,), [2, 3])]
    """
    validation = (split == 1).nonzero()[:, 0].tolist()
    groups = shuffled_groups([keys[row] for row in validation], seeds[0])
    halves = [torch.zeros(len(split), dtype=torch.bool) for _ in range(2)]
    for index, rows in enumerate(groups):
        halves[index % 2][[validation[row] for row in rows]] = True
    if search or len(seeds) == 1 or len(groups) < 2:
        return [Fold(tuple(seeds), halves[0])]
    return [Fold(tuple(seeds[index::2]), half) for index, half in enumerate(halves)]


def cross_mean(values: Tensor, chose: Tensor) -> Tensor:
    """The mean over the members that a molecule did not help to choose; NaN if there is none.

    Shapes:
        ``values`` [M, V, T], ``chose`` [M, V] bool; returns [V, T].

    >>> cross_mean(torch.tensor([[[1.0], [2.0]], [[3.0], [4.0]]]), torch.tensor([[True, True], [False, True]])).tolist()
    [[3.0], [nan]]
    """
    return values.masked_fill(chose[:, :, None], float("nan")).nanmean(dim=0)
