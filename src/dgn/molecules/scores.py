"""Scores of predictions, target by target."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dgn.molecules.columns import Target

Scores = dict[str, dict[str, float]]


def score_numbers(targets: Sequence[Target], truth: Tensor, prediction: Tensor, half: Tensor, guess: Tensor) -> Scores:
    """Errors, the share of truths within prediction ± half, and the error of saying ``guess`` [T] always.

    >>> found = score_numbers([Target("y")], torch.ones(2, 1), torch.zeros(2, 1), torch.ones(2, 1), torch.ones(1))
    >>> found["y"]["mae"], found["y"]["coverage"], found["y"]["mae of the training median"]
    (1.0, 1.0, 0.0)
    """
    found = {}
    for column, target in enumerate(targets):
        known = ~truth[:, column].isnan()
        if not known.any():
            continue
        y, p, h = (values[known, column] for values in (truth, prediction, half))
        error, deviation = y - p, ((y - y.mean()) ** 2).sum()
        found[target.name] = {
            "molecules": float(len(y)),
            "mae": float(error.abs().mean()),
            "rmse": float((error**2).mean().sqrt()),
            "r2": float(1 - (error**2).sum() / deviation) if deviation > 0 else float("nan"),
            "coverage": float((error.abs() <= h).double().mean()),
            "width": float(2 * h.median()),
            "mae of the training median": float((y - guess[column]).abs().mean()),
        }
    return found


def score_classes(targets: Sequence[Target], truth: Tensor, probability: Tensor) -> Scores:
    """Areas under curves and the mean squared error of probabilities; labels with one class only are left out.

    >>> score_classes([Target("a")], torch.tensor([[0.0], [1.0]]), torch.tensor([[0.25], [0.75]]))["a"]["roc-auc"]
    1.0
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    found = {}
    for column, target in enumerate(targets):
        known = ~truth[:, column].isnan()
        y, p = truth[known, column], probability[known, column]
        if len(torch.unique(y)) < 2:
            continue
        found[target.name] = {
            "molecules": float(len(y)),
            "positive": float(y.sum()),
            "roc-auc": float(roc_auc_score(y.numpy(), p.numpy())),
            "average precision": float(average_precision_score(y.numpy(), p.numpy())),
            "brier": float(((y - p) ** 2).mean()),
        }
    return found


def mean_scores(scores: Scores) -> dict[str, float]:
    """The mean of each score over the targets."""
    names = dict.fromkeys(name for one in scores.values() for name in one)
    return {name: sum(one[name] for one in scores.values()) / len(scores) for name in names}
