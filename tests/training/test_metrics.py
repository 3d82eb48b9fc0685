"""Metrics by their published rules, stated here in plain NumPy."""

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, confusion_matrix, roc_auc_score
from torch import Tensor

from dgn.training.metrics import METRICS, balanced_accuracy, balanced_accuracy_old
from dgn.training.objectives import make_objective


def make_labels(rows: int, tasks: int, missing: float = 0.3) -> tuple[Tensor, Tensor]:
    """Scores with ties and far outside [0, 1], labels with gaps, a task without positives and one without negatives."""
    random = torch.Generator().manual_seed(tasks)
    target = (torch.rand(rows, tasks, generator=random) < 0.2).float()
    scores = (5 * torch.randn(rows, tasks, generator=random) + 3 * target).round(decimals=1) + 40
    target = target.masked_fill(torch.rand(rows, tasks, generator=random) < missing, torch.nan)
    if tasks > 2:
        target[:, 0], target[:, 1] = 0, 1
    return scores, target


def by_rule(score: object, prediction: Tensor, target: Tensor) -> float:
    scores = []
    for p, t in zip(prediction.numpy().T, target.numpy().T, strict=True):
        if (t == 1).any() and (t == 0).any():
            scores.append(score(t[~np.isnan(t)], p[~np.isnan(t)]))  # type: ignore[operator]
    return float(np.mean(scores))


@pytest.mark.parametrize(
    ("name", "score"), [("roc-auc", roc_auc_score), ("average-precision", average_precision_score)]
)
@pytest.mark.parametrize("tasks", [1, 12])
def test_multi_label_metrics_equal_the_rule(name: str, score: object, tasks: int) -> None:
    prediction, target = make_labels(400, tasks)
    assert METRICS[name][0](prediction, target) == pytest.approx(by_rule(score, prediction, target), abs=1e-6)


@pytest.mark.parametrize(
    ("name", "dataset", "key", "tasks"),
    [("roc-auc", "ogbg-molhiv", "rocauc", 1), ("average-precision", "ogbg-molpcba", "ap", 128)],
)
@pytest.mark.filterwarnings("ignore")
def test_multi_label_metrics_equal_those_of_ogb(name: str, dataset: str, key: str, tasks: int) -> None:
    ogb = pytest.importorskip("ogb.graphproppred.evaluate", exc_type=ImportError)
    prediction, target = make_labels(300, tasks, missing=0.3 if tasks > 1 else 0.0)
    expected = ogb.Evaluator(dataset).eval({"y_true": target.numpy(), "y_pred": prediction.numpy()})[key]
    assert METRICS[name][0](prediction, target) == pytest.approx(expected, abs=1e-6)


def test_a_score_that_is_not_defined_is_refused() -> None:
    for name in ("roc-auc", "average-precision"):
        for labels in (torch.ones(3), torch.zeros(1), torch.full((2, 2), torch.nan)):
            with pytest.raises(ValueError, match="a positive and a negative label"):
                METRICS[name][0](torch.zeros(labels.shape), labels)


@pytest.mark.parametrize("present", [(0, 1, 2), (0, 2), (1,)])
def test_balanced_accuracy_is_the_mean_recall(present: tuple[int, ...]) -> None:
    random = torch.Generator().manual_seed(len(present))
    prediction = torch.randn(60, 3, generator=random)
    target = torch.tensor(present)[torch.randint(len(present), (60,), generator=random)]
    confusion = confusion_matrix(target, prediction.argmax(dim=1))
    support = confusion.sum(axis=1)
    expected = (confusion.diagonal() / np.maximum(support, 1)).sum() / len(confusion)
    assert balanced_accuracy(prediction, target) == pytest.approx(expected, abs=1e-6)
    accuracy = METRICS["accuracy"][0](prediction, target)
    assert accuracy == pytest.approx(confusion.diagonal().sum() / 60, abs=1e-6)


def test_the_old_balanced_accuracy_normalises_over_nodes_batch_by_batch() -> None:
    random = torch.Generator().manual_seed(0)
    prediction, target = torch.randn(50, 2, generator=random) + torch.tensor([2.0, 0.0]), torch.arange(50) % 3 // 2
    expected = []
    for p, t in zip(prediction.numpy().reshape(2, 25, 2), target.numpy().reshape(2, 25), strict=True):
        guess = (np.exp(p) / np.exp(p).sum(axis=0)).argmax(axis=1)
        expected.append(np.mean([(guess[t == c] == c).mean() for c in (0, 1)]))
    assert balanced_accuracy_old(prediction, target, [25, 25]) == pytest.approx(np.mean(expected), abs=1e-6)
    assert balanced_accuracy_old(prediction, target) != pytest.approx(balanced_accuracy(prediction, target), abs=1e-3)
    with pytest.raises(ValueError, match="add up to 50"):
        balanced_accuracy_old(prediction, target, [25])


def test_the_old_balanced_accuracy_divides_by_the_classes_with_a_hit() -> None:
    """One class of three is absent, one is never right: the recall of the third alone counts, as the first rule did."""
    prediction = torch.tensor([[9.0, 0.0, 0.0], [9.0, 0.0, 0.0], [0.0, 0.0, 9.0], [9.0, 0.0, 0.0]])
    assert balanced_accuracy_old(prediction, torch.tensor([0, 0, 0, 1])) == pytest.approx(2 / 3)
    assert balanced_accuracy_old(prediction, torch.tensor([1, 1, 1, 1])) == 0.0
    assert balanced_accuracy_old(prediction, torch.tensor([0, -1, 0, -1])) == 0.5


def test_missing_labels_do_not_count() -> None:
    assert METRICS["mae"][0](torch.tensor([[1.0, 5.0]]), torch.tensor([[2.0, torch.nan]])) == 1.0
    assert METRICS["accuracy"][0](torch.eye(3), torch.tensor([0, -1, 0])) == 0.5


def test_all_metrics_of_an_objective_come_by_name() -> None:
    metrics = make_objective("node-classification").metrics(torch.eye(2), torch.tensor([0, 1]), batches=[2])
    assert metrics == {"balanced-accuracy": 1.0, "balanced-accuracy-old": 1.0, "accuracy": 1.0}
