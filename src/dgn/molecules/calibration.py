"""Which validation molecules choose the epochs of which members, so that others remain to calibrate intervals.

A molecule that chose the epoch of a network has smaller errors than new ones: intervals calibrated on it would be too
narrow.
Half of the members choose on one half of the validation split, half of them on the other. The errors of each half are
those of the members that did not choose on it (cross-conformal prediction, Vovk 2015).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.splits import shuffled_groups
from dgn.molecules.conformal import conformal_scores
from dgn.molecules.descriptor_models import member_weights
from dgn.molecules.logarithm import to_log
from dgn.molecules.model_io import Model, weighted_spread
from dgn.molecules.rows import Molecules, censoring_of, take
from dgn.molecules.stacking import choose_shares

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


def calibrate(
    model: Model, outputs: Tensor, unseen: Tensor, molecules: Molecules, split: Tensor, folds: Sequence[Fold]
) -> Model:
    """The model with shares of its members, and conformal scores: errors of what a validation molecule did not choose.

    Shares of members on descriptors follow from the errors on the validation split of those that did not see it; the
    error of a molecule in one half of the split is that with shares chosen on the other half.

    Shapes:
        ``outputs`` [M, R, T] of the networks of all folds, and of members on descriptors that did not learn from a
        molecule; ``unseen`` [M, R, T] of networks, and of such members that learned from no validation molecule.
    """
    val = (split == 1).nonzero()[:, 0]
    validation, half = take(molecules, val), folds[0].chooses[val]
    chose = torch.stack([fold.chooses[val] for fold in folds for _ in fold.seeds])  # [M, V], of networks alone
    truth = to_log(model.targets, validation.values)
    truth = truth.masked_fill(censoring_of(validation) != 0, torch.nan)  # errors are not known
    members, candidates = (_kinds(model.learned(each[:, val]), chose) for each in (outputs, unseen))
    shares = torch.ones(1, len(val), len(model.scale), dtype=torch.float64)
    if model.descriptor_models is not None:
        models = model.descriptor_models.with_shares(choose_shares(candidates, truth))
        model = replace(model, descriptor_models=models)
        of_half = [models.with_shares(choose_shares(candidates[:, part], truth[part])).shares for part in (half, ~half)]
        shares = torch.where(half[:, None], of_half[1][:, None], of_half[0][:, None])
    mean = (shares * members).sum(dim=0)
    learned = model.learned(outputs)
    weights = member_weights(len(learned), model.descriptor_models, len(model.scale))
    typical = weighted_spread(learned[:, split == 0], weights).nanmedian(dim=0).values
    floor = typical.where(~typical.isnan(), model.scale).clamp(min=1e-6 * model.scale)  # NaN for a single member
    model = replace(model, floor=floor)
    prediction = model.combine(outputs[:, val], model.compare(validation.graphs))
    return replace(model, scores=conformal_scores(truth, mean, prediction.difficulty))


def _kinds(learned: Tensor, chose: Tensor) -> Tensor:
    """What each kind of member predicts of validation molecules: the networks that they did not choose, and others."""
    return torch.cat([cross_mean(learned[: len(chose)], chose)[None], learned[len(chose) :]])
