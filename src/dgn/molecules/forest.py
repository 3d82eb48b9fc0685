"""A random forest on descriptors of molecules: a member of the ensemble of another kind, stored as tensors."""

import math
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.molecules.columns import Task

TREES = 200  # of each target
SMALLEST = 2  # molecules of a leaf: as accurate as 1, in half the nodes
LEAVES = 500_000  # of all trees: with more, leaves have more molecules, so that the forest stays below 10 MB
FEWEST = 10  # values of a target from which a member on descriptors learns
PREFIX = "forest_"  # of its tensors in the folder of a model
RAREST = 1e-6  # probability of one of several classes, so that some class has one
LEAF = -1  # feature of a node without children

Inputs = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Forest:
    """The trees of all targets, node after node, depth first: the left child follows its parent.

    A molecule goes left where its feature is at most the threshold. ``number`` is the threshold of a node, or the
    output of a leaf: standardized numbers or probabilities.

    Shapes:
        ``feature`` [N] int16 (LEAF: a leaf), ``number`` [N] float32, ``right`` [N] int32, the right child; ``roots``
        [T, K] int32, the first nodes of the trees; ``width`` [1] int32, the number of features.
    """

    feature: Tensor
    number: Tensor
    right: Tensor
    roots: Tensor
    width: Tensor

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> "Forest | None":
        """The forest among the tensors of a model, if it has one; nodes that would not end in a leaf are refused."""
        parts = read_parts(tensors, PREFIX, cls.__dataclass_fields__)
        if not parts:
            return None
        forest = cls(**parts)
        node, inner = torch.arange(len(forest.feature)), forest.feature != LEAF
        size, width = len(node), int(forest.width)
        is_valid = (
            len(forest.number) == len(forest.right) == size
            and bool(((forest.roots >= 0) & (forest.roots < size)).all())
            and bool(((forest.feature >= LEAF) & (forest.feature < width)).all())
            and bool(((forest.right > node + 1) & (forest.right < size))[inner].all())  # so that every path ends
        )
        if not is_valid:
            raise ValueError(f"forest: expected trees of {size} nodes on {width} features, got others; copy it again")
        return forest

    def tensors(self) -> dict[str, Tensor]:
        """What :meth:`read` reads."""
        return {f"{PREFIX}{name}": getattr(self, name) for name in self.__dataclass_fields__}

    def predict(self, inputs: Inputs) -> Tensor:
        """Standardized numbers or probabilities, [G, T]: the means over the trees of each target."""
        inputs = _fill(inputs)
        means = [self._descend(inputs, roots).mean(axis=1) for roots in self.roots.numpy()]
        return torch.from_numpy(np.stack(means, axis=1))

    def _descend(self, inputs: Inputs, roots: NDArray[np.int32]) -> NDArray[np.float64]:
        """The outputs of some trees, [G, K]: all molecules go down all trees, one level at a time."""
        feature, number, right = self.feature.numpy(), self.number.numpy(), self.right.numpy()
        nodes = np.repeat(roots[None], len(inputs), axis=0).ravel()
        active = np.flatnonzero(feature[nodes] != LEAF)
        while len(active):
            node = nodes[active]
            goes_left = inputs[active // len(roots), feature[node]] <= number[node]
            nodes[active] = node = np.where(goes_left, node + 1, right[node])
            active = active[feature[node] != LEAF]
        return number[nodes].reshape(len(inputs), len(roots)).astype(np.float64)


class FittedForest(NamedTuple):
    """A forest, and the outputs for each molecule of the trees that did not learn from it, [R, T].

    They are NaN for molecules that all trees learned from.
    """

    forest: Forest
    out_of_bag: Tensor


def fit_forest(
    inputs: Inputs,
    values: Tensor,
    keys: Sequence[str],
    weight: Tensor,
    task: Task,
    seed: int,
    has_columns: bool = False,
) -> FittedForest:
    """A forest of ``TREES`` for each target, on bootstrap samples of the molecules; duplicates are drawn together.

    ``values`` [R, T] are standardized numbers or labels, their ``weight`` is 0 where they teach nothing
    (:func:`teaching_weight`). A target that fewer than ``FEWEST`` molecules teach has no trees. ``has_columns``: some
    inputs are columns of ``--features``, which a node must not miss among a thousand others. Unknown inputs are 0.

    Law: an output out of bag does not depend on the value of the molecule, nor on those of its duplicates.
    """
    inputs, group = _fill(inputs), np.unique(np.array(keys), return_inverse=True)[1]
    columns = []
    settings = {
        "max_features": 1 / 3 if task == "regression" or has_columns else "sqrt",
        "min_samples_leaf": leaf_size(int((weight > 0).sum())),
    }
    for column in range(values.size(1)):
        y, w = values[:, column].numpy(), weight[:, column].numpy()
        rows = np.flatnonzero(w > 0)
        make = partial(_grow, inputs, y, w, rows, group, settings)
        seeds = np.random.SeedSequence((seed, column)).spawn(TREES if len(rows) >= FEWEST else 0)
        with ThreadPoolExecutor(torch.get_num_threads()) as pool:  # trees grow without the GIL
            columns.append(list(pool.map(make, seeds)))
    return _join(columns, inputs, task)


def teaching_weight(values: Tensor, weights: Tensor | None) -> Tensor:
    """The weight of each value [R, T] for members on descriptors, 0 where it is missing: float64 [R, T].

    ``weights`` are [R] or [R, T], ``None``: all 1.

    >>> teaching_weight(torch.tensor([[1.0], [float("nan")], [3.0]]), torch.tensor([2.0, 1.0, 0.0])).flatten().tolist()
    [2.0, 0.0, 0.0]
    """
    weight = torch.ones(values.shape) if weights is None else weights.reshape(len(values), -1).expand_as(values)
    return weight.double().masked_fill(values.isnan(), 0.0)


def read_parts(tensors: Mapping[str, Tensor], prefix: str, names: Collection[str]) -> dict[str, Tensor]:
    """The tensors of a member by name, none if it is not there; other names than these are refused."""
    parts = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    if parts and set(parts) != set(names):
        raise ValueError(
            f"{prefix.rstrip('_')}: expected the tensors {', '.join(names)}, got {', '.join(sorted(parts))}; "
            "another version of dgn wrote them: fit again"
        )
    return parts


def _fill(inputs: Inputs) -> Inputs:
    return np.nan_to_num(inputs, nan=0.0)


def leaf_size(values: int) -> int:
    """The fewest values in a leaf with which the trees on this number of values have at most ``LEAVES`` leaves.

    >>> leaf_size(1_000), leaf_size(30_000)
    (2, 12)
    """
    return max(SMALLEST, math.ceil(values * TREES / LEAVES))


class Tree(NamedTuple):
    """A tree of scikit-learn, and the molecules that were not in its bootstrap sample, [R] bool."""

    fitted: Any
    out_of_bag: NDArray[np.bool_]


def _grow(
    inputs: Inputs,
    y: NDArray[np.float64],
    weight: NDArray[np.float64],
    rows: NDArray[np.int64],
    group: NDArray[np.int64],
    settings: Mapping[str, Any],
    seed: np.random.SeedSequence,
) -> Tree:
    """One tree on a bootstrap sample of the molecules of ``rows``."""
    from sklearn.tree import DecisionTreeRegressor

    random = np.random.default_rng(seed)
    molecules = np.unique(group[rows])
    count = np.bincount(random.choice(molecules, len(molecules)), minlength=group.max() + 1)[group]
    drawn = rows[count[rows] > 0]
    # For labels 0 and 1, squared errors are half the Gini impurity, and the mean of a leaf is a probability.
    tree = DecisionTreeRegressor(**settings, random_state=int(random.integers(2**31)))
    share = weight / weight[rows].mean()  # so that equal weights are none, to the last bit
    return Tree(tree.fit(inputs[drawn], y[drawn], (share * count)[drawn]), count == 0)


def _join(columns: Sequence[Sequence[Tree]], inputs: Inputs, task: Task) -> FittedForest:
    """The trees of all targets as one forest; node 0 is a leaf, the tree of targets without any."""
    zero = (np.array([LEAF], dtype=np.int16), np.zeros(1, dtype=np.float32), np.zeros(1, dtype=np.int32))
    nodes, roots, start = [zero], np.zeros((len(columns), TREES), dtype=np.int32), 1
    for column, trees in enumerate(columns):
        for index, tree in enumerate(trees):
            roots[column, index] = start
            nodes.append(pack_tree(tree.fitted.tree_, start))
            start += len(nodes[-1][0])
    feature, number, right = (torch.from_numpy(np.concatenate(parts)) for parts in zip(*nodes, strict=True))
    width = torch.tensor([inputs.shape[1]], dtype=torch.int32)
    forest = Forest(feature, number, right, torch.from_numpy(roots), width)
    out_of_bag = torch.from_numpy(np.stack([_out_of_bag(trees, inputs) for trees in columns], axis=1))
    return FittedForest(forest, as_outputs(out_of_bag, task))


def _out_of_bag(trees: Sequence[Tree], inputs: Inputs) -> NDArray[np.float64]:
    """The mean over the trees that a molecule was not in the sample of, [R]; 0 if there are no trees."""
    total, count = np.zeros(len(inputs)), np.zeros(len(inputs))
    for fitted, out_of_bag in trees:
        if out_of_bag.any():
            total[out_of_bag] += fitted.predict(inputs[out_of_bag])
        count += out_of_bag
    mean: NDArray[np.float64] = total / np.where(count > 0, count, np.nan if trees else 1.0)
    return mean


def pack_tree(tree: Any, start: int) -> tuple[NDArray[np.int16], NDArray[np.float32], NDArray[np.int32]]:
    """Features, numbers and right children of the nodes of scikit-learn's ``tree_``, the first of them at ``start``.

    Thresholds are rounded down, so that the same float32 features are at most equal to them.
    """
    leaf = tree.children_left < 0
    assert (tree.children_left[~leaf] == np.flatnonzero(~leaf) + 1).all()
    threshold = tree.threshold.astype(np.float32)
    rounded = np.where(threshold > tree.threshold, np.nextafter(threshold, np.float32(-np.inf)), threshold)
    number = np.where(leaf, tree.value[:, 0, 0], rounded).astype(np.float32)
    right = np.where(leaf, 0, start + tree.children_right).astype(np.int32)
    return np.where(leaf, LEAF, tree.feature).astype(np.int16), number, right


def one_hot(classes: Tensor, count: int) -> Tensor:
    """Labels 0 and 1 of each of ``count`` classes, NaN where the class is missing: [R, 1] -> [R, C].

    >>> one_hot(torch.tensor([[1.0], [float("nan")]]), 2).tolist()
    [[0.0, 1.0], [nan, nan]]
    """
    labels = (classes == torch.arange(count)).to(classes.dtype)
    return labels.where(~classes.isnan(), torch.nan)


def as_outputs(values: Tensor, task: Task) -> Tensor:
    """Standardized numbers as they are, probabilities as the outputs that stand for them: float32, as of networks.

    Probabilities of several classes, each of trees of its own, are made to sum to 1 by the softmax behind.

    >>> as_outputs(torch.tensor([0.0, 0.5]), "multi-label").tolist()
    [-inf, 0.0]
    """
    if task == "regression":
        return values.float()
    return (values.clamp(min=RAREST).log() if task == "multiclass" else values.logit()).float()
