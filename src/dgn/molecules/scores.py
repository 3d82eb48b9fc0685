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


def score_multiclass(target: Target, truth: Tensor, probability: Tensor, training: Tensor) -> Scores:
    """Accuracies, ROC-AUC and log loss of a target of several classes, and the accuracy of the commonest in training.

    The balanced accuracy is the mean recall over the classes present; the ROC-AUC is the mean over classes against all
    others, of those that are present and not alone.

    Shapes:
        ``truth`` [R] and ``training`` of class numbers, ``probability`` [R, C].

    >>> truth, probability = torch.tensor([0.0, 1.0, 2.0]), torch.tensor([[8, 1, 1], [1, 8, 1], [5, 1, 4]]) / 10
    >>> scores = score_multiclass(Target("phase", ("gas", "liquid", "solid")), truth, probability, torch.zeros(5))
    >>> {name: round(score, 3) for name, score in scores["phase"].items()}  # doctest: +NORMALIZE_WHITESPACE
    {'molecules': 3.0, 'accuracy': 0.667, 'balanced accuracy': 0.667, 'roc-auc': 1.0, 'log loss': 0.454,
     'accuracy of the commonest class': 0.333}
    """
    from sklearn.metrics import roc_auc_score

    label, predicted = truth.long(), probability.argmax(dim=1)
    hit = (predicted == label).double()
    present = torch.unique(label).tolist()
    areas = (
        [roc_auc_score((label == c).numpy(), probability[:, c].numpy()) for c in present] if len(present) > 1 else []
    )
    return {
        target.name: {
            "molecules": float(len(label)),
            "accuracy": float(hit.mean()),
            "balanced accuracy": sum(float(hit[label == c].mean()) for c in present) / len(present),
            "roc-auc": sum(map(float, areas)) / len(areas) if areas else float("nan"),
            "log loss": float(-probability.gather(1, label[:, None]).clamp(min=1e-12).log().mean()),
            "accuracy of the commonest class": float((label == training.long().mode().values).double().mean()),
        }
    }


def mean_scores(scores: Scores) -> dict[str, float]:
    """The mean of each score over the targets."""
    names = dict.fromkeys(name for by_name in scores.values() for name in by_name)
    return {name: sum(by_name[name] for by_name in scores.values()) / len(scores) for name in names}
