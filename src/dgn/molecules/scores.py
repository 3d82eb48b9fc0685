"""Scores of predictions, target by target."""

from collections.abc import Sequence

import torch
from torch import Tensor

from dgn.molecules.columns import Target
from dgn.training.objectives import censored_target

Scores = dict[str, dict[str, float]]


def score_regression(
    targets: Sequence[Target],
    truth: Tensor,
    prediction: Tensor,
    half: Tensor,
    median: Tensor,
    censoring: Tensor | None = None,
) -> Scores:
    """Errors per target, the coverage of prediction ± half, and the error of a constant prediction ``median`` [T].

    Where the truth is a bound (``censoring`` 1 or -1, [R, T]), a prediction beyond it has the error 0, another the
    distance to it. R2, coverage and width are those of the measured values alone.

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
        sign = torch.zeros(len(y)) if censoring is None else censoring[mask, column]
        constant = median[column].to(y).expand(len(y))
        error, plain = (censored_target(y, guess, sign) - guess for guess in (p, constant))
        exact = sign == 0
        measured, residual = y[exact], error[exact]
        deviation = ((measured - measured.mean()) ** 2).sum()
        scores[target.name] = {
            "molecules": float(len(y)),
            **({} if censoring is None else {"censored": float((~exact).sum())}),
            "mae": float(error.abs().mean()),
            "rmse": float((error**2).mean().sqrt()),
            "r2": float(1 - (residual**2).sum() / deviation) if deviation > 0 else float("nan"),
            "coverage": float((residual.abs() <= h[exact]).double().mean()),
            "width": float(2 * h[exact].median()) if exact.any() else float("nan"),
            "mae of the training median": float(plain.abs().mean()),
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
