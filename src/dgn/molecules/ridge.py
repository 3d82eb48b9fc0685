"""Ridge regression on descriptors: a member of the ensemble that extrapolates, stored as tensors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dgn.molecules.columns import Task
from dgn.molecules.forest import FEWEST, Inputs, read_parts

CLIP = 5.0  # standard deviations
COMPONENTS = 512  # principal ones that the regression reads at most
FOLDS = 5
PENALTIES = 10.0 ** torch.arange(-3, 2, 0.5, dtype=torch.float64)  # relative to the mean square of a molecule's inputs
MARGIN = 0.5  # by which a prediction may leave the range of the training values, relative to its width
SURE = 10.0  # the largest log-odds
CONSTANT = 1e-6  # deviation of an input, relative to its mean, up to which it is not read
CHUNK = 4096  # rows in double precision at a time
PREFIX = "ridge_"  # of its tensors in the folder of a model


@dataclass(frozen=True, eq=False)
class Ridge:
    r"""A linear function of clipped standardized inputs for each target, itself clipped.

    .. math:: y = \mathrm{clip}\bigl(b + W\,\mathrm{clip}((x - \mu) / \sigma, \pm 5), [l, h]\bigr)

    are standardized numbers, or log-odds of labels. An unknown input is its mean.

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
        parts = read_parts(tensors, PREFIX, cls.__dataclass_fields__)
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
        return as_outputs(standardize(inputs, self.center, self.scale) @ self.matrix.T.double() + self.bias, self, task)


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
    weight: Tensor,
    task: Task,
    seed: int,
) -> FittedRidge:
    """A regression for each target, whose penalty is the best of ``PENALTIES`` in a cross-validation.

    ``values`` [R, T] are standardized numbers or labels, their ``weight`` is 0 where they teach nothing. ``widths`` are
    those of blocks of inputs, all of which weigh the same. Duplicates (equal ``keys``) share a fold. Labels are learned
    as numbers; a logistic regression on the outputs that were held out makes them log-odds.

    Laws: with a given penalty, an output out of fold depends neither on the value of the molecule nor on those of its
    duplicates (but for the two numbers of the logistic regression); the unit of the weights does not matter.
    """
    used = (weight.sum(dim=1) > 0).numpy()
    center, scale = _standardization(inputs[used])
    share = torch.cat([torch.full((width,), max(width, 1) ** -0.5) for width in widths]).double()
    basis = principal_components(standardize(chunk, center, scale) * share for chunk in _chunks(inputs[used]))
    scores = torch.cat([(standardize(chunk, center, scale) * share) @ basis for chunk in _chunks(inputs)])
    group = np.unique(np.array(keys), return_inverse=True)[1]
    fold = torch.from_numpy(np.random.default_rng(seed).integers(FOLDS, size=group.max() + 1)[group])
    zero = torch.zeros(values.size(1), dtype=torch.float64)
    ridge = Ridge(center, scale, torch.zeros(values.size(1), len(center)), zero.clone(), zero - SURE, zero + SURE)
    raw = torch.zeros_like(values)
    for column in range(values.size(1)):
        known = weight[:, column] > 0
        if int(known.sum()) < FEWEST:
            continue
        teaches = torch.from_numpy(np.isin(group, group[known]))  # molecules, or duplicates of them
        y, w = values[:, column].nan_to_num(), weight[:, column] / weight[known, column].mean()
        coefficients, bias, out = _cross_validated(scores, y, w, torch.where(teaches, fold, FOLDS))
        if task == "regression":
            margin = MARGIN * (y[known].max() - y[known].min())
            ridge.low[column], ridge.high[column] = y[known].min() - margin, y[known].max() + margin
            slope, offset = 1.0, 0.0
        else:
            slope, offset = logistic(out[known], y[known], w[known])
        ridge.matrix[column] = slope * (basis @ coefficients) * share
        ridge.bias[column] = slope * bias + offset
        raw[:, column] = slope * out + offset
    return FittedRidge(ridge, as_outputs(raw, ridge, task))


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
    r"""Weighted ridge regressions with an intercept, for all penalties: coefficients [C, P], intercepts [P].

    .. math:: \min_{\beta, b}\; \sum_i w_i (y_i - b - x_i \beta)^2 + p\, t\, |\beta|^2,

    where :math:`t` is the mean of :math:`|x_i - \bar x|^2`.
    """
    share = weight / weight.sum()
    x_mean, y_mean = share @ x, share @ y
    x = x - x_mean
    gram, right = x.T @ (weight[:, None] * x), x.T @ (weight * (y - y_mean))
    eigenvalues, vectors = torch.linalg.eigh(gram)
    penalty = (PENALTIES * gram.trace() / weight.sum()).clamp(min=1e-12)
    coefficients = vectors @ ((vectors.T @ right)[:, None] / (eigenvalues.clamp(min=0)[:, None] + penalty))
    return coefficients, y_mean - x_mean @ coefficients


def _cross_validated(x: Tensor, y: Tensor, weight: Tensor, fold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients [C] and the intercept with the best penalty, and outputs out of fold for all rows, [R].

    Rows of no ``fold`` (``FOLDS``) have the outputs of the regression on all others.
    """
    outputs = torch.zeros(len(y), len(PENALTIES), dtype=torch.float64)
    for index in range(FOLDS + 1):  # the last holds nothing out that teaches
        held = fold == index
        learns = ~held & (weight > 0)
        if not learns.any():
            continue
        coefficients, intercepts = solve_ridge(x[learns], y[learns], weight[learns])
        outputs[held] = x[held] @ coefficients + intercepts
    best = (weight @ (outputs - y[:, None]).square()).argmin()
    return coefficients[:, best], intercepts[best], outputs[:, best]


def _standardization(inputs: Inputs) -> tuple[Tensor, Tensor]:
    """The mean and the inverse deviation of what is known of inputs; 0 for constants."""
    count = torch.from_numpy((~np.isnan(inputs)).sum(axis=0)).clamp(min=1)
    center = torch.from_numpy(np.nansum(inputs, axis=0, dtype=np.float64)) / count
    squares = torch.zeros_like(center)
    for chunk in _chunks(inputs):
        squares += (torch.from_numpy(chunk).double() - center).nan_to_num(nan=0.0).square().sum(dim=0)
    deviation = (squares / count).sqrt()
    return center, torch.where(deviation > CONSTANT * center.abs(), 1 / deviation, 0.0)


def standardize(inputs: Inputs, center: Tensor, scale: Tensor) -> Tensor:
    """Inputs as the regression reads them, float64 [G, F]."""
    return ((torch.from_numpy(inputs).double() - center) * scale).clamp(-CLIP, CLIP).nan_to_num(nan=0.0)


def _chunks(inputs: Inputs) -> Iterator[Inputs]:
    """Rows in parts whose copies in double precision take little memory."""
    return (inputs[start : start + CHUNK] for start in range(0, len(inputs), CHUNK))


def logistic(x: Tensor, label: Tensor, weight: Tensor) -> tuple[float, float]:
    r"""Slope and offset of the log-odds of labels as a function of x; a slope below 0 is 0.

    As in Platt's method, labels are drawn from 0 and 1 towards the middle by one molecule of the other class, so that
    separable ones have finite log-odds.

    >>> slope, offset = logistic(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 1.0]), torch.ones(2))
    >>> round(slope, 2), round(offset, 2)
    (1.39, -0.69)
    """
    from sklearn.linear_model import LogisticRegression

    positive, negative = float(label.sum()), float((1 - label).sum())
    target = torch.where(label > 0.5, (positive + 1) / (positive + 2), 1 / (negative + 2)).double()
    share = weight.double() / weight.double().mean()
    prior = float((share * target).mean())
    center, deviation = float(x.mean()), float(x.std(correction=0))
    slope = 0.0
    if deviation > 0:  # each molecule is one of either class, by its target
        inputs, classes = ((x.double() - center) / deviation).repeat(2)[:, None], np.repeat([1, 0], len(x))
        regression = LogisticRegression(C=1e6, solver="newton-cholesky")
        regression.fit(inputs.numpy(), classes, torch.cat([share * target, share * (1 - target)]).numpy())
        slope, offset = float(regression.coef_[0, 0]) / deviation, float(regression.intercept_[0])
    if slope <= 0:
        return 0.0, float(np.log(prior / (1 - prior)))
    return slope, offset - slope * center


def as_outputs(linear: Tensor, ridge: Ridge, task: Task) -> Tensor:
    """The linear function within its limits; for several classes, the logarithms of their probabilities."""
    limited = linear.clamp(ridge.low, ridge.high)
    return (torch.nn.functional.logsigmoid(limited) if task == "multiclass" else limited).float()
