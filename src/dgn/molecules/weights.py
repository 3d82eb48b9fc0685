"""Weights of molecules and classes in the training loss."""

import torch
from torch import Tensor

from dgn.data.benchmark import SAMPLE_WEIGHT
from dgn.data.packed import PackedGraphs
from dgn.molecules.columns import Task


def weigh(graphs: PackedGraphs, values: Tensor, split: Tensor, task: Task, class_weights: str | None) -> PackedGraphs:
    """The graphs with all weights of the training loss: those of the molecules times those of their classes.

    ``values`` [R, T] are labels, NaN where missing; ``split`` [R] is 0 in training.
    """
    weight = graphs.graphs.get(SAMPLE_WEIGHT)
    if weight is not None and not bool((weight[split == 0] > 0).any()):
        raise ValueError("weights: expected some above 0 in the training split, got none; change them")
    if class_weights is None:
        return graphs
    if task == "regression":
        raise ValueError("class_weights: expected classes to balance, got regression; leave it out")
    balanced = balanced_weights(values, values[split == 0])
    weight = balanced if weight is None else balanced * weight[:, None]
    return graphs.with_values(graphs={SAMPLE_WEIGHT: weight.float()})


def balanced_weights(labels: Tensor, training: Tensor) -> Tensor:
    r"""The weight of each label, :math:`n / (C n_c)` for class c of C with :math:`n_c` of n training labels.

    Law: all classes of a target have the same total weight in training, and the mean weight is 1.

    Shapes:
        ``labels`` [R, T] from 0 to C - 1 and NaN, ``training`` [R', T]; returns [R, T].

    >>> labels = torch.tensor([[0.0], [0.0], [0.0], [1.0]])
    >>> balanced_weights(labels, labels)[:, 0].tolist()
    [0.6666666865348816, 0.6666666865348816, 0.6666666865348816, 2.0]
    """
    label_of = labels.nan_to_num().long()
    classes = max(2, int(label_of.max()) + 1)
    count = torch.stack([(training == label).sum(dim=0) for label in range(classes)])
    weight = count.sum(dim=0) / (classes * count.clamp(min=1))
    return weight.gather(0, label_of)


def weight_notes(column: str | None, class_weights: str | None) -> list[str]:
    """What training was weighted by, for the model card."""
    notes = [] if column is None else [f"rows are weighted in training by {column}"]
    balanced = "classes are weighted in training so that all count the same: probabilities are not frequencies"
    return notes + [balanced] * (class_weights is not None)
