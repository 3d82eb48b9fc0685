"""Objectives: losses as a numerator and a denominator, and their metrics."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy

from dgn.graph.checks import check_option
from dgn.training.metrics import METRICS, balanced_accuracy_old

Terms = tuple[Tensor, Tensor]
Loss = Callable[[Tensor, Tensor, Tensor, Tensor | None], Terms]


def l1(prediction: Tensor, target: Tensor, weight: Tensor, statistics: Tensor | None = None) -> Terms:  # noqa: ARG001
    r"""Sums of absolute errors and weights: $\sum_g w_g |p_g - t_g|$ and $\sum_g w_g$ over entries that are not NaN.

    Shapes:
        ``prediction`` [R, T] and ``target`` [R, T] (or [R] with T = 1), ``weight`` [R], [R, 1] or [R, T].

    >>> l1(torch.tensor([[1.0], [9.0]]), torch.tensor([3.0, 0.0]), torch.tensor([1.0, 0.0]))
    (tensor(2.), tensor(1.))
    """
    prediction = _precise(prediction)
    target = target.reshape(prediction.shape).to(prediction.dtype)
    share = _entry_weight(~target.isnan(), weight, prediction)
    error = _mask_padding(prediction - target, share)
    return (share * error.abs()).sum(), share.sum()


def censored_target(target: Tensor, prediction: Tensor, censoring: Tensor | None) -> Tensor:
    """The targets, with the prediction in place of every bound that it satisfies: its error is 0, without gradient.

    ``censoring`` is 1 where the truth is above the target, -1 where it is below, and 0 where it is the target.

    Shapes:
        [R, T] each; ``target`` may be [R] with T = 1.

    >>> bound, prediction = torch.tensor([[10.0], [10.0], [10.0]]), torch.tensor([[12.0], [12.0], [12.0]])
    >>> censored_target(bound, prediction, torch.tensor([[1], [0], [-1]])).flatten().tolist()
    [12.0, 10.0, 10.0]
    """
    if censoring is None:
        return target
    prediction = prediction.detach()
    target = target.reshape(prediction.shape).to(prediction.dtype)
    satisfied = (censoring.reshape(prediction.shape) * (prediction - target)) > 0
    return torch.where(satisfied, prediction, target)


def binary(prediction: Tensor, target: Tensor, weight: Tensor, statistics: Tensor | None = None) -> Terms:  # noqa: ARG001
    r"""The binary cross entropy of logits over labelled entries; NaN and negative targets are missing labels.

    Shapes:
        As in :func:`l1`.

    >>> binary(torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, torch.nan]]), torch.ones(1))
    (tensor(0.6931), tensor(1.))
    """
    prediction = _precise(prediction)
    target = target.reshape(prediction.shape).to(prediction.dtype)
    share = _entry_weight(target >= 0, weight, prediction)
    prediction, target = _mask_padding(prediction, share), _mask_padding(target, share)
    return binary_cross_entropy_with_logits(prediction, target, share, reduction="sum"), share.sum()


def classes(
    prediction: Tensor,
    target: Tensor,
    weight: Tensor,
    statistics: Tensor | None = None,  # noqa: ARG001
    smoothing: float = 0.0,
) -> Terms:
    r"""The cross entropy of classes; negative targets are missing labels.

    With ``smoothing`` s, the target of a row of class c is $(1 - s) \, [k = c] + s / C$ for each of C classes k. The
    target can be a distribution over the classes instead.

    Shapes:
        ``prediction`` [R, C], ``target`` [R] (or [R, 1]) integers or [R, C] distributions, ``weight`` [R] or [R, 1].

    >>> classes(torch.zeros(2, 2), torch.tensor([0, 1]), torch.ones(2))
    (tensor(1.3863), tensor(2.))
    """
    if target.is_floating_point() and target.shape == prediction.shape:
        return _cross_entropy(prediction, target, weight.reshape(-1).to(_precise(prediction).dtype), smoothing)
    return _cross_entropy(prediction, _class(target), _row_weight(prediction, target, weight), smoothing)


def balanced_classes(
    prediction: Tensor, target: Tensor, weight: Tensor, statistics: Tensor | None = None, smoothing: float = 0.0
) -> Terms:
    r"""The cross entropy of nodes, with smaller weights for larger classes.

    The weight of class c is $(V - n_c) / V$ for V labelled nodes of the batch, $n_c$ of them of class c, and 0 without
    nodes. The denominator is the sum of these weights over the nodes, as for ``cross_entropy(weight=...)``. With a
    single class in the batch both terms are 0. ``statistics`` are the $n_c$ of a batch over all processes;
    ``smoothing`` as in :func:`classes`.

    Shapes:
        As in :func:`classes`; ``statistics`` [C].

    >>> balanced_classes(torch.zeros(4, 2), torch.tensor([0, 0, 0, 1]), torch.ones(4))
    (tensor(1.0397), tensor(1.5000))
    """
    share = _row_weight(prediction, target, weight)
    count = class_counts(prediction, target, weight) if statistics is None else statistics
    total = count.sum()
    class_weight = torch.where(count > 0, (total - count) / total.clamp(min=1), 0)
    label = _class(target)
    return _cross_entropy(prediction, label, share * class_weight.to(share.dtype)[label], smoothing)


def class_counts(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    """The number of labelled nodes of each class, which :func:`balanced_classes` needs for the whole batch.

    >>> class_counts(torch.zeros(3, 2), torch.tensor([0, 0, 1]), torch.ones(3))
    tensor([2., 1.])
    """
    labels = torch.arange(prediction.size(1), device=target.device)
    share = _row_weight(prediction, target, weight)
    return ((_class(target)[:, None] == labels) * share[:, None]).sum(dim=0)


@dataclass(frozen=True)
class Objective:
    """A loss and its metrics.

    Laws: ``loss`` gives two sums over rows, so the loss of a split is the sum of numerators over the sum of
    denominators for every division into batches (for "node-classification", with the ``statistics`` of the whole
    split). Rows of weight 0 change neither term nor any gradient, whatever their values. Nothing synchronizes with the
    device.

    >>> objective = make_objective("regression")
    >>> objective.metric_name, objective.higher_is_better, objective.metric(torch.ones(2, 1), torch.zeros(2))
    ('mae', False, 1.0)
    """

    name: str
    metric_name: str
    extra_metrics: tuple[str, ...]
    smoothing: float = 0.0

    def loss(self, prediction: Tensor, target: Tensor, weight: Tensor, statistics: Tensor | None = None) -> Terms:
        """Weighted numerator and denominator; ``weight`` is 0 for padding, and 1 or a sample weight for real rows."""
        if self.smoothing:
            return SMOOTHED[self.name](prediction, target, weight, statistics, self.smoothing)
        return OBJECTIVES[self.name][0](prediction, target, weight, statistics)

    def smoothed(self, smoothing: float) -> "Objective":
        """The objective with label smoothing, for training: metrics use the labels themselves.

        >>> make_objective("classification").smoothed(0.1).loss(torch.zeros(1, 2), torch.tensor([0]), torch.ones(1))
        (tensor(0.6931), tensor(1.))
        """
        if smoothing and self.name not in SMOOTHED:
            raise ValueError(
                f"training.label_smoothing: expected 0 for {self.name}, got {smoothing}; smooth labels of classes only"
            )
        return replace(self, smoothing=smoothing)

    def statistics(self, prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor | None:
        """Sums over the rows of a batch that its loss depends on, to be added over processes before the loss."""
        return class_counts(prediction, target, weight) if self.name == "node-classification" else None

    def is_scored(self, target: Tensor) -> bool:
        """Whether metrics are defined for these targets: some are labelled; with "multi-label", a task has 0 and 1.

        >>> make_objective("multi-label").is_scored(torch.tensor([[0.0, 1.0], [torch.nan, 1.0]]))
        False
        """
        if self.name == "multi-label":
            rows = target.reshape(len(target), -1)
            return bool(((rows == 0).any(dim=0) & (rows == 1).any(dim=0)).any())
        return bool((~target.isnan() if self.name.endswith("regression") else target >= 0).any())

    @property
    def higher_is_better(self) -> bool:
        return METRICS[self.metric_name][1]

    def metric(self, prediction: Tensor, target: Tensor) -> float:
        """The main metric of all real rows of a split."""
        return METRICS[self.metric_name][0](prediction, target)

    def metrics(self, prediction: Tensor, target: Tensor, batches: Sequence[int] | None = None) -> dict[str, float]:
        """All metrics by name; only "balanced-accuracy-old" depends on ``batches``, the rows per batch."""
        scores = {}
        for name in (self.metric_name, *self.extra_metrics):
            if name == "balanced-accuracy-old":
                scores[name] = balanced_accuracy_old(prediction, target, batches)
            else:
                scores[name] = METRICS[name][0](prediction, target)
        return scores


OBJECTIVES: dict[str, tuple[Loss, tuple[str, ...]]] = {  # the loss and its metrics
    "regression": (l1, ("mae",)),
    "node-regression": (l1, ("mae",)),
    "node-classification": (balanced_classes, ("balanced-accuracy", "balanced-accuracy-old", "accuracy")),
    "classification": (classes, ("accuracy", "balanced-accuracy")),
    "multi-label": (binary, ("roc-auc", "average-precision")),
}

SMOOTHED = {"node-classification": balanced_classes, "classification": classes}


def make_objective(name: str, metric: str | None = None) -> Objective:
    """An objective by name; ``metric`` is the main one (without: the first of its objective), the others are extra.

    >>> make_objective("multi-label", "average-precision").extra_metrics
    ('roc-auc',)
    """
    check_option("objective", name, tuple(OBJECTIVES))
    metrics = OBJECTIVES[name][1]
    if metric is not None:
        check_option("metric", metric, metrics)
    main = metric or metrics[0]
    return Objective(name, main, tuple(other for other in metrics if other != main))


def _precise(prediction: Tensor) -> Tensor:
    return prediction.to(torch.promote_types(prediction.dtype, torch.float32))


def _class(target: Tensor) -> Tensor:
    return target.reshape(-1).long().clamp(min=0)


def _row_weight(prediction: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    return (weight.reshape(-1) * (target.reshape(-1) >= 0)).to(_precise(prediction).dtype)


def _entry_weight(labelled: Tensor, weight: Tensor, prediction: Tensor) -> Tensor:
    if weight.dim() < prediction.dim():
        weight = weight.reshape([-1] + [1] * (prediction.dim() - 1))
    return (labelled * weight).to(prediction.dtype)


def _mask_padding(values: Tensor, share: Tensor) -> Tensor:
    """Values with 0 in rows of weight 0, so that no infinity or NaN of padding reaches a sum or a gradient."""
    return torch.where(share > 0, values, 0)


def _cross_entropy(prediction: Tensor, target: Tensor, share: Tensor, smoothing: float) -> Terms:
    prediction = _mask_padding(_precise(prediction), share[:, None])
    entropy = cross_entropy(prediction, target, reduction="none", label_smoothing=smoothing)
    return (share * entropy).sum(), share.sum()
