"""Scores of predictions, target by target."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dgn.molecules.columns import Target

Scores = dict[str, dict[str, float]]


def score_regression(
    targets: Sequence[Target], truth: Tensor, prediction: Tensor, half: Tensor, median: Tensor
) -> Scores:
    """Errors per target, the coverage of prediction ± half, and the error of a constant prediction ``median`` [T].

    >>> scores = score_regression([Target("y")], torch.ones(2, 1), torch.zeros(2, 1), torch.ones(2, 1), torch.ones(1))
    >>> scores["y"]["mae"], scores["y"]["coverage"], scores["y"]["mae of the training median"]
    (1.0, 1.0, 0.0)
    """
    scores = {}
    for column, target in enumerate(targets):
        mask = ~truth[:, column].isnan()
        if not mask.any():
            continue
        y, p, h = (values[mask, column] for values in (truth, prediction, half))
        error, deviation = y - p, ((y - y.mean()) ** 2).sum()
        scores[target.name] = {
            "molecules": float(len(y)),
            "mae": float(error.abs().mean()),
            "rmse": float((error**2).mean().sqrt()),
            "r2": float(1 - (error**2).sum() / deviation) if deviation > 0 else float("nan"),
            "coverage": float((error.abs() <= h).double().mean()),
            "width": float(2 * h.median()),
            "mae of the training median": float((y - median[column]).abs().mean()),
        }
    return scores


def score_classification(targets: Sequence[Target], truth: Tensor, probability: Tensor) -> Scores:
    """ROC-AUC, average precision and Brier score per target; targets with one class only are omitted.

    >>> scores = score_classification([Target("a")], torch.tensor([[0.0], [1.0]]), torch.tensor([[0.25], [0.75]]))
    >>> scores["a"]["roc-auc"]
    1.0
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    scores = {}
    for column, target in enumerate(targets):
        mask = ~truth[:, column].isnan()
        y, p = truth[mask, column], probability[mask, column]
        if len(torch.unique(y)) < 2:
            continue
        scores[target.name] = {
            "molecules": float(len(y)),
            "positive": float(y.sum()),
            "roc-auc": float(roc_auc_score(y.numpy(), p.numpy())),
            "average precision": float(average_precision_score(y.numpy(), p.numpy())),
            "brier": float(((y - p) ** 2).mean()),
        }
    return scores


def mean_scores(scores: Scores) -> dict[str, float]:
    """The mean of each score over the targets."""
    names = dict.fromkeys(name for by_name in scores.values() for name in by_name)
    return {name: sum(by_name[name] for by_name in scores.values()) / len(scores) for name in names}
