"""Ridge regression on descriptors: a member of the ensemble that extrapolates, stored as tensors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgn.molecules.columns import Task
from dgn.molecules.forest import FEWEST, Inputs

CLIP = 5.0  # standard deviations
COMPONENTS = 512  # principal ones that the regression reads at most
FOLDS = 5
PENALTIES = 10.0 ** torch.arange(-3, 2, 0.5, dtype=torch.float64)  # relative to the mean square of a molecule's inputs
STEPS = 20  # of Newton's method
MARGIN = 0.5  # by which a prediction may leave the range of the training values, relative to its width
SURE = 10.0  # the largest log-odds
CHUNK = 4096  # rows in double precision at a time
PREFIX = "ridge_"  # of its tensors in the folder of a model


@dataclass(frozen=True, eq=False)
class Ridge:
    r"""A linear function of clipped standardized inputs for each target, itself clipped.

    .. math:: y = \mathrm{clip}\bigl(b + W\,\mathrm{clip}((x - \mu) / \sigma, \pm 5), [l, h]\bigr)

    are standardized numbers, or log-odds of labels.

    Shapes:
        ``center``, ``scale`` [F], ``matrix`` [T, F], ``bias``, ``low`` and ``high`` [T].
    """

    center: Tensor
    scale: Tensor
    matrix: Tensor
    bias: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> "Ridge | None":
        """The regression among the tensors of a model, if it has one."""
        parts = {name.removeprefix(PREFIX): value for name, value in tensors.items() if name.startswith(PREFIX)}
        if not parts:
            return None
        ridge = cls(**parts)
        targets, width = ridge.matrix.shape
        shapes = [tuple(tensor.shape) for tensor in ridge.tensors().values()]
        if shapes != [(width,), (width,), (targets, width), *[(targets,)] * 3]:
            raise ValueError(f"ridge: expected a matrix, and vectors of its sizes, got shapes {shapes}; copy it again")
        return ridge

    def tensors(self) -> dict[str, Tensor]:
        """What :meth:`read` reads."""
        return {f"{PREFIX}{name}": getattr(self, name) for name in self.__dataclass_fields__}

    def outputs(self, inputs: Inputs, task: Task) -> Tensor:
        """Standardized numbers, log-odds, or logarithms of the probabilities of classes: float32 [G, T]."""
        return as_outputs(self.standardize(inputs) @ self.matrix.T.double() + self.bias, self, task)

    def standardize(self, inputs: Inputs) -> Tensor:
        """Inputs as the regression reads them, float64 [G, F]."""
        return ((torch.from_numpy(inputs).double() - self.center) * self.scale).clamp(-CLIP, CLIP)


class FittedRidge(NamedTuple):
    """A regression, and the outputs for each molecule of a regression that did not learn from it, [R, T].

    For a molecule that teaches nothing that is the regression itself.
    """

    ridge: Ridge
    out_of_fold: Tensor


def fit_ridge(
    inputs: Inputs,
    widths: Sequence[int],
    values: Tensor,
    keys: Sequence[str],
    weights: Tensor | None,
    task: Task,
    seed: int,
) -> FittedRidge:
    """A regression for each target, whose penalty is the best of ``PENALTIES`` in a cross-validation.

    ``values`` [R, T] are standardized numbers or labels, NaN where missing; ``weights`` are [R] or [R, T]. ``widths``
    are those of blocks of inputs, all of which weigh the same. Duplicates (equal ``keys``) share a fold. Labels are
    learned as numbers; a logistic regression on the values that were held out makes them log-odds.

    Law: with a given penalty, an output out of fold does not depend on the value of the molecule, nor on those of its
    duplicates.
    """
    weight = torch.ones_like(values) if weights is None else weights.double().reshape(len(values), -1).expand_as(values)
    weight = weight.masked_fill(values.isnan(), 0.0)
    used = (weight.sum(dim=1) > 0).numpy()
    blank = _standardization(inputs[used], values.size(1))
    share = torch.cat([torch.full((width,), max(width, 1) ** -0.5) for width in widths]).double()
    basis = principal_components(blank.standardize(chunk) * share for chunk in _chunks(inputs[used]))
    scores = torch.cat([(blank.standardize(chunk) * share) @ basis for chunk in _chunks(inputs)])
    group = np.unique(np.array(keys), return_inverse=True)[1]
    fold = torch.from_numpy(np.random.default_rng(seed).integers(FOLDS, size=group.max() + 1)[group])
    matrix, bias = blank.matrix.double(), blank.bias.clone()
    raw = torch.zeros_like(values)
    for columns in _same_rows(weight):
        y, w = values[:, columns].nan_to_num(), weight[:, columns[0]]
        if int((w > 0).sum()) < FEWEST:
            continue
        teaches = torch.from_numpy(np.isin(group, group[w > 0]))  # molecules, or duplicates of them
        solved = _cross_validated(scores, y, w, torch.where(teaches, fold, FOLDS))
        coefficients, intercepts, raw[:, columns] = solved
        matrix[columns], bias[columns] = (basis @ coefficients).T * share, intercepts
    return _link(blank, matrix, bias, raw, values, weight, task)


def principal_components(chunks: Iterable[Tensor]) -> Tensor:
    """Orthonormal directions of the largest variance about 0 of rows in chunks, [F, C], at most ``COMPONENTS``.

    >>> principal_components([torch.tensor([[3.0, 0.0], [0.0, 1.0]], dtype=torch.float64)]).abs()
    tensor([[0., 1.],
            [1., 0.]], dtype=torch.float64)
    """
    count, gram = 0, torch.zeros(1, 1, dtype=torch.float64)
    for rows in chunks:
        count, gram = count + len(rows), gram + rows.T @ rows
    vectors: Tensor = torch.linalg.eigh(gram).eigenvectors
    return vectors[:, -min(COMPONENTS, count) :]


def solve_ridge(x: Tensor, y: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    r"""Weighted ridge regressions with an intercept, for all penalties: coefficients [P, C, T], intercepts [P, T].

    .. math:: \min_{\beta, b}\; \sum_i w_i (y_i - b - x_i \beta)^2 + p\, t\, |\beta|^2,

    where :math:`t` is the mean of :math:`|x_i - \bar x|^2`.
    """
    share = weight / weight.sum()
    x_mean, y_mean = share @ x, share @ y
    x = x - x_mean
    gram, right = x.T @ (weight[:, None] * x), x.T @ (weight[:, None] * (y - y_mean))
    eigenvalues, vectors = torch.linalg.eigh(gram)
    penalty = PENALTIES * gram.trace() / weight.sum()
    damped = (vectors.T @ right) / (eigenvalues.clamp(min=0) + penalty.clamp(min=1e-12)[:, None])[:, :, None]
    coefficients = vectors @ damped
    return coefficients, y_mean - x_mean @ coefficients


def _cross_validated(x: Tensor, y: Tensor, weight: Tensor, fold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients [C, T] and intercepts [T] with the best penalties, and outputs out of fold for all rows, [R, T].

    Rows of no ``fold`` (``FOLDS``) have the outputs of the regression on all others.
    """
    outputs = torch.zeros(len(PENALTIES), *y.shape, dtype=torch.float64)
    for index in range(FOLDS):
        held = fold == index
        learns = torch.where(held, 0.0, weight)
        if not learns.any():
            continue
        coefficients, intercepts = solve_ridge(x[learns > 0], y[learns > 0], learns[learns > 0])
        outputs[:, held] = x[held] @ coefficients + intercepts[:, None]
    best = (weight[:, None] * (outputs - y).square()).sum(dim=1).argmin(dim=0)
    coefficients, intercepts = solve_ridge(x[weight > 0], y[weight > 0], weight[weight > 0])
    column, others = torch.arange(y.size(1)), fold == FOLDS
    outputs[:, others] = x[others] @ coefficients + intercepts[:, None]
    return coefficients[best, :, column].T, intercepts[best, column], outputs[best, :, column].T


def _standardization(inputs: Inputs, targets: int) -> Ridge:
    """A regression with the mean and the scale of these inputs, that predicts 0."""
    center = torch.from_numpy(inputs.mean(axis=0, dtype=np.float64))
    squares = [(torch.from_numpy(chunk).double() - center).square().sum(dim=0) for chunk in _chunks(inputs)]
    deviation = (torch.stack(squares).sum(dim=0) / len(inputs)).sqrt()
    scale = torch.where(deviation > 1e-6, 1 / deviation, 0.0)
    zero = torch.zeros(targets, dtype=torch.float64)
    return Ridge(center, scale, torch.zeros(targets, inputs.shape[1]), zero, zero - SURE, zero + SURE)


def _chunks(inputs: Inputs) -> Iterator[Inputs]:
    """Rows in parts whose copies in double precision take little memory."""
    return (inputs[start : start + CHUNK] for start in range(0, len(inputs), CHUNK))


def _same_rows(weight: Tensor) -> list[Tensor]:
    """The targets that the same molecules teach with the same weights, together."""
    which = torch.unique(weight, dim=1, return_inverse=True)[1]
    return [(which == index).nonzero()[:, 0] for index in range(int(which.max()) + 1)]


def _link(
    blank: Ridge, matrix: Tensor, bias: Tensor, raw: Tensor, values: Tensor, weight: Tensor, task: Task
) -> FittedRidge:
    """The regression with its limits, or its log-odds."""
    low, high = blank.low.clone(), blank.high.clone()
    for column in range(values.size(1)):
        known = weight[:, column] > 0
        if int(known.sum()) < FEWEST:
            continue
        y = values[known, column]
        if task == "regression":
            margin = MARGIN * (y.max() - y.min())
            low[column], high[column] = y.min() - margin, y.max() + margin
        else:
            slope, offset = logistic(raw[known, column], y, weight[known, column])
            matrix[column], bias[column] = slope * matrix[column], slope * bias[column] + offset
            raw[:, column] = slope * raw[:, column] + offset
    ridge = Ridge(blank.center, blank.scale, matrix.float(), bias, low, high)
    return FittedRidge(ridge, as_outputs(raw, ridge, task))


def logistic(x: Tensor, label: Tensor, weight: Tensor) -> tuple[float, float]:
    r"""Slope and offset of the log-odds of labels as a function of x; a slope below 0 is 0.

    As in Platt's method, labels are drawn from 0 and 1 towards the middle by one molecule of the other class, so that
    separable ones have finite log-odds.

    >>> slope, offset = logistic(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]), torch.ones(2))
    >>> round(slope, 2), round(offset, 2)
    (1.39, -0.69)
    """
    positive, negative = float(label.sum()), float((1 - label).sum())
    target = torch.where(label > 0.5, (positive + 1) / (positive + 2), 1 / (negative + 2)).double()
    weight = weight.double() / weight.double().mean()
    prior = float((weight * target).sum() / weight.sum())
    center = float((weight * x).sum() / weight.sum())
    deviation = max(float((weight * (x - center).square()).sum() / weight.sum()) ** 0.5, 1e-12)
    design = torch.stack([(x.double() - center) / deviation, torch.ones(len(x), dtype=torch.float64)], dim=1)
    solution = torch.tensor([0.0, np.log(prior / (1 - prior))], dtype=torch.float64)
    ridge = 1e-6 * torch.eye(2, dtype=torch.float64)
    for _ in range(STEPS):
        probability = (design @ solution).sigmoid()
        hessian = design.T @ ((weight * probability * (1 - probability))[:, None] * design) + ridge
        gradient = design.T @ (weight * (probability - target))
        solution = (solution - torch.linalg.solve(hessian, gradient)).clamp(-SURE, SURE)
    slope, offset = float(solution[0]) / deviation, float(solution[1])
    if slope <= 0:
        return 0.0, float(np.log(prior / (1 - prior)))
    return slope, offset - slope * center


def as_outputs(linear: Tensor, ridge: Ridge, task: Task) -> Tensor:
    """The linear function within its limits; for several classes, the logarithms of their probabilities."""
    limited = linear.clamp(ridge.low, ridge.high)
    return (torch.nn.functional.logsigmoid(limited) if task == "multiclass" else limited).float()
