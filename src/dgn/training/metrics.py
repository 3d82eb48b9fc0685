"""Metrics of a split, as the published results define them. All are fractions, not percent."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

Metric = Callable[[Tensor, Tensor], float]


@torch.no_grad()
def mean_absolute_error(prediction: Tensor, target: Tensor) -> float:
    """The mean of |p - t| over all labelled entries, independent of the batches.

    >>> mean_absolute_error(torch.tensor([[1.0], [2.0]]), torch.tensor([1.0, 4.0]))
    1.0
    """
    from torchmetrics.functional import mean_absolute_error as reference

    target = target.reshape(prediction.shape)
    labelled = ~target.isnan()
    return float(reference(prediction[labelled].double(), target[labelled].double()))


@torch.no_grad()
def accuracy(prediction: Tensor, target: Tensor) -> float:
    """The fraction of labelled rows whose largest score is that of their class; negative classes are missing labels.

    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 1.0]]), torch.tensor([0, 0]))
    0.5
    """
    return _class_accuracy(prediction, target, "micro")


@torch.no_grad()
def balanced_accuracy(prediction: Tensor, target: Tensor) -> float:
    """The mean recall over classes; the corrected rule of PATTERN.

    Classes that are neither in the targets nor predicted are left out; one that is only predicted counts as 0.

    >>> balanced_accuracy(torch.tensor([[2.0, 1.0], [2.0, 1.0], [2.0, 1.0]]), torch.tensor([0, 0, 1]))
    0.5
    """
    return _class_accuracy(prediction, target, "macro")


@torch.no_grad()
def balanced_accuracy_old(prediction: Tensor, target: Tensor, batches: Sequence[int] | None = None) -> float:
    """The balanced accuracy by the first rule of PATTERN: softmax over nodes, mean over batches.

    It serves comparisons with tables that used it. The softmax runs over the nodes of a class instead of the classes of
    a node, which shifts the decision boundary until each class has the same total over the batch. The recalls of a
    batch are averaged over the classes with at least one hit.

    Shapes:
        ``prediction`` [V, C], ``target`` [V]; ``batches`` are node counts that add up to V (without: one batch).

    >>> balanced_accuracy_old(torch.tensor([[3.0, 0.0], [3.0, 0.1]]), torch.tensor([0, 1]))
    1.0
    """
    sizes = [len(target)] if batches is None else list(batches)
    if sum(sizes) != len(target):
        raise ValueError(f"batches: expected sizes that add up to {len(target)} rows, got {sum(sizes)}; count nodes")
    pairs = zip(torch.split(prediction, sizes), torch.split(target, sizes), strict=True)
    scores = [_recall_of_hits(score.float().softmax(dim=0), labels.reshape(-1).long()) for score, labels in pairs]
    return sum(scores) / len(scores)


def _recall_of_hits(prediction: Tensor, target: Tensor) -> float:
    """The mean recall over the classes with at least one hit; 0 without any."""
    num_classes, labelled = prediction.size(1), target >= 0
    hit = labelled & (prediction.argmax(dim=1) == target)
    hits, rows = (torch.bincount(target[mask], minlength=num_classes).double() for mask in (hit, labelled))
    return float((hits / rows.clamp(min=1)).sum() / (hits > 0).sum().clamp(min=1))


@torch.no_grad()
def roc_auc(prediction: Tensor, target: Tensor) -> float:
    """The area under the ROC curve by OGB's rule: the mean over tasks with a positive and a negative label.

    Shapes:
        ``prediction`` [G, T] (or [G]) of any scale, ``target`` the same of 0, 1, and NaN or -1 for missing labels.

    >>> round(roc_auc(torch.tensor([90.0, 80.0, 70.0, 60.0]), torch.tensor([1, 0, 1, 0])), 6)
    0.75
    """
    ranked = _rank(prediction, target)
    above = (ranked.before + ranked.negatives) / 2  # negatives above each row, ties counted half
    total = (ranked.positive * (1 - above / ranked.negatives[-1:].clamp(min=1))).sum(dim=0)
    return _mean_over_tasks(total, ranked)


@torch.no_grad()
def average_precision(prediction: Tensor, target: Tensor) -> float:
    """The average precision by OGB's rule: the mean over tasks with a positive and a negative label.

    Shapes:
        As in :func:`roc_auc`.

    >>> round(average_precision(torch.tensor([90.0, 80.0, 70.0, 60.0]), torch.tensor([1, 0, 1, 0])), 6)
    0.833333
    """
    ranked = _rank(prediction, target)
    precision = ranked.positives / (ranked.positives + ranked.negatives).clamp(min=1)
    return _mean_over_tasks((ranked.positive * precision).sum(dim=0), ranked)


def _class_accuracy(prediction: Tensor, target: Tensor, average: str) -> float:
    from torchmetrics.functional.classification import multiclass_accuracy

    target = target.reshape(-1).long()
    score = multiclass_accuracy(
        prediction.argmax(dim=1),
        torch.where(target < 0, -1, target),
        num_classes=prediction.size(1),
        average=average,  # type: ignore[arg-type]
        ignore_index=-1,
        validate_args=False,
    )
    return float(score)


class _Ranked(NamedTuple):
    """Rows of each task sorted by descending score, [G, T] float64 each.

    ``positive`` is 1 for positive labels. ``positives`` and ``negatives`` are cumulative counts that include ties;
    ``before`` counts the negatives above the ties. Rows without a label come last and are not counted.
    """

    positive: Tensor
    positives: Tensor
    negatives: Tensor
    before: Tensor


def _rank(prediction: Tensor, target: Tensor) -> _Ranked:
    prediction, target = (values.reshape(len(values), -1) for values in (prediction, target))
    scores = torch.where(target >= 0, prediction.double(), -torch.inf)  # also false for NaN
    ordered, order = scores.sort(dim=0, descending=True)
    sorted_target = target.gather(0, order)
    positive, negative = ((sorted_target == label).double() for label in (1, 0))
    rank = torch.arange(len(scores), device=scores.device)[:, None].expand_as(scores)
    changes, edge = ordered[1:] != ordered[:-1], torch.ones_like(ordered[:1], dtype=torch.bool)
    starts, ends = torch.cat([edge, changes]), torch.cat([changes, edge])
    start = torch.where(starts, rank, 0).cummax(dim=0).values
    end = torch.where(ends, rank, len(scores)).flip(0).cummin(dim=0).values.flip(0)
    positives, negatives = positive.cumsum(0), negative.cumsum(0)
    return _Ranked(
        positive, positives.gather(0, end), negatives.gather(0, end), (negatives - negative).gather(0, start)
    )


def _mean_over_tasks(total: Tensor, ranked: _Ranked) -> float:
    """The mean over tasks with both labels of ``total`` [T], divided by the positives of each task."""
    positives, negatives = (counts[-1:].sum(dim=0) for counts in (ranked.positives, ranked.negatives))
    both = (positives > 0) & (negatives > 0)
    scores = torch.where(both, total / positives.clamp(min=1), 0)
    score_sum, tasks = torch.stack([scores.sum(), both.sum()]).tolist()
    if not tasks:
        raise ValueError(
            "target: expected a task with a positive and a negative label, got none; the score is not defined on "
            "these rows, evaluate on more of them"
        )
    return float(score_sum / tasks)


METRICS: dict[str, tuple[Metric, bool]] = {  # function, and whether higher is better
    "mae": (mean_absolute_error, False),
    "accuracy": (accuracy, True),
    "balanced-accuracy": (balanced_accuracy, True),
    "balanced-accuracy-old": (balanced_accuracy_old, True),
    "roc-auc": (roc_auc, True),
    "average-precision": (average_precision, True),
}
