"""Kernel ridge regression on descriptors: a member of the ensemble that compares molecules, stored as tensors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.molecules.columns import Task
from dgn.molecules.forest import FEWEST, Inputs, read_parts

CLIP = 5.0  # standard deviations
COMPONENTS = 256  # principal ones of the inputs, in which molecules are compared
WIDTH = 2.0  # of the Gaussians, relative to the median squared distance
LANDMARKS = 4096  # at most if all targets have values of the same molecules (:func:`landmark_count`)
FEATURES = 2**27  # numbers that describe all molecules at most: 1 GB
FOLDS = 5
PENALTIES = 10.0 ** torch.arange(-3, 1.5, 0.5, dtype=torch.float64)  # relative to the mean square of the features
MARGIN = 0.5  # by which a prediction may leave the range of the training values, relative to its width
SURE = 10.0  # the largest log-odds
CONSTANT = 1e-6  # deviation of an input, relative to its mean, up to which it is not read
JITTER = 1e-8  # of Gaussians between landmarks, some of which may have equal inputs
SAMPLE = 1024  # landmarks between which the median distance is taken
CHUNK = 4096  # rows in double precision at a time
PREFIX = "kernel_ridge_"  # of its tensors in the folder of a model


@dataclass(frozen=True, eq=False)
class KernelRidge:
    r"""A sum of Gaussians around landmarks for each target, clipped.

    .. math:: y = \mathrm{clip}\Bigl(b + \sum_l a_l\, e^{-|z(x) - z_l|^2},\ [l, h]\Bigr), \qquad
              z(x) = P^\top \mathrm{clip}((x - \mu) / \sigma,\ \pm 5),

    are standardized numbers, or log-odds of labels. An unknown input is its mean.

    Shapes:
        ``center``, ``scale`` [F], ``projection`` [F, C], ``landmarks`` [L, C], ``coefficients`` [L, T], ``bias``,
        ``low`` and ``high`` [T].
    """

    center: Tensor
    scale: Tensor
    projection: Tensor
    landmarks: Tensor
    coefficients: Tensor
    bias: Tensor
    low: Tensor
    high: Tensor

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> "KernelRidge | None":
        """The regression among the tensors of a model, if it has one."""
        parts = read_parts(tensors, PREFIX, cls.__dataclass_fields__)
        if not parts:
            return None
        (inputs, components), (landmarks, targets) = parts["projection"].shape, parts["coefficients"].shape
        expected: dict[str, tuple[int, ...]] = dict.fromkeys(("center", "scale"), (inputs,))
        expected |= {"projection": (inputs, components), "landmarks": (landmarks, components)}
        expected |= {"coefficients": (landmarks, targets), **dict.fromkeys(("bias", "low", "high"), (targets,))}
        shapes = {name: tuple(part.shape) for name, part in parts.items()}
        if shapes != expected:
            raise ValueError(f"kernel_ridge: expected tensors of shapes {expected}, got {shapes}; copy them again")
        return cls(**parts)

    def tensors(self) -> dict[str, Tensor]:
        """What :meth:`read` reads."""
        return {f"{PREFIX}{name}": getattr(self, name) for name in self.__dataclass_fields__}

    def outputs(self, inputs: Inputs, task: Task) -> Tensor:
        """Standardized numbers, log-odds, or logarithms of the probabilities of classes: float32 [G, T]."""
        linear = torch.cat([self.kernel(chunk) @ self.coefficients for chunk in _chunks(inputs)]) + self.bias
        return as_outputs(linear, self, task)

    def kernel(self, inputs: Inputs) -> Tensor:
        """The Gaussians around the landmarks, at molecules: float64 [G, L]."""
        return gaussians(project(inputs, self.center, self.scale, self.projection), self.landmarks)


class FittedKernelRidge(NamedTuple):
    """A regression, and the outputs for each molecule of a regression that did not learn from it, [R, T].

    For a molecule that teaches nothing that is the regression itself.
    """

    ridge: KernelRidge
    out_of_fold: Tensor


def fit_kernel_ridge(
    inputs: Inputs,
    share: Tensor,
    values: Tensor,
    keys: Sequence[str],
    weight: Tensor,
    task: Task,
    seed: int,
) -> FittedKernelRidge:
    """A regression for each target, whose penalty is the best of ``PENALTIES`` in a cross-validation.

    ``values`` [R, T] are standardized numbers or labels, their ``weight`` is 0 where they teach nothing. ``share`` [F]
    multiplies the standardized inputs. Duplicates (equal ``keys``) share a fold. Labels are learned as numbers; a
    logistic regression on the outputs that were held out makes them log-odds. If there are more molecules than
    landmarks, these are a random sample, and the regression is the best sum of Gaussians around them.

    Laws: with a given penalty, an output out of fold depends neither on the value of the molecule nor on those of its
    duplicates (but for the two numbers of the logistic regression); the unit of the weights does not matter.
    """
    group = np.unique(np.array(keys), return_inverse=True)[1]
    patterns, pattern = torch.unique(weight, dim=1, return_inverse=True)
    ridge = _place(inputs, share, weight, group, landmark_count(len(inputs), patterns.size(1)), seed)
    factor = torch.linalg.cholesky(_with_diagonal(gaussians(ridge.landmarks.double(), ridge.landmarks), JITTER))
    features = torch.cat([_whiten(ridge.kernel(chunk), factor) for chunk in _chunks(inputs)])
    fold = torch.from_numpy(np.random.default_rng(seed).integers(FOLDS, size=group.max() + 1)[group])
    raw = torch.zeros_like(values)
    for index in range(patterns.size(1)):
        known, columns = patterns[:, index] > 0, (pattern == index).nonzero()[:, 0]
        if int(known.sum()) < FEWEST:
            continue
        teaches = torch.from_numpy(np.isin(group, group[known]))  # molecules, or duplicates of them
        y, w = values[:, columns].nan_to_num(), patterns[:, index] / patterns[known, index].mean()
        coefficients, bias, out = _cross_validated(features, y, w, torch.where(teaches, fold, FOLDS))
        slope, offset = torch.ones_like(bias), torch.zeros_like(bias)
        if task == "regression":
            low, high = y[known].amin(dim=0), y[known].amax(dim=0)
            ridge.low[columns], ridge.high[columns] = low - MARGIN * (high - low), high + MARGIN * (high - low)
        else:
            odds = [logistic(out[known, column], y[known, column], w[known]) for column in range(len(columns))]
            slope, offset = torch.tensor(odds, dtype=torch.float64).T
        ridge.coefficients[:, columns] = slope * torch.linalg.solve_triangular(factor.T, coefficients, upper=True)
        ridge.bias[columns] = slope * bias + offset
        raw[:, columns] = slope * out + offset
    return FittedKernelRidge(ridge, as_outputs(raw, ridge, task))


def landmark_count(molecules: int, patterns: int) -> int:
    """The number of landmarks: a table with many patterns of missing values takes as long as one without.

    Each pattern has equations of its own, which take a time that grows with the cube of the number.

    >>> landmark_count(1_000, 1), landmark_count(8_000, 1), landmark_count(8_000, 12), landmark_count(400_000, 1)
    (1000, 4096, 1789, 335)
    """
    return max(1, min(molecules, FEATURES // molecules, int(LANDMARKS / patterns ** (1 / 3))))


def _place(
    inputs: Inputs, share: Tensor, weight: Tensor, group: NDArray[np.int64], count: int, seed: int
) -> KernelRidge:
    """A regression that is 0 everywhere, with ``count`` landmarks at most: different molecules that teach something."""
    used = (weight.sum(dim=1) > 0).numpy()
    center, scale = _standardization(inputs[used])
    scaled = share.double()[:, None]
    basis = principal_components(standardize(chunk, center, scale) * scaled.T for chunk in _chunks(inputs[used]))
    rows = np.flatnonzero(used)[np.unique(group[used], return_index=True)[1]]
    rows = np.random.default_rng(seed).permutation(rows)[:count]
    projection = scaled * basis
    places = project(inputs[rows], center, scale, projection)
    median = torch.pdist(places[:SAMPLE]).square().median() if len(rows) > 1 else torch.tensor(0.0)
    projection = projection / (WIDTH * median.where(median > 0, 1.0)).sqrt()
    landmarks = project(inputs[rows], center, scale, projection.float()).float()
    zero = torch.zeros(weight.size(1), dtype=torch.float64)
    coefficients = torch.zeros(len(rows), len(zero), dtype=torch.float64)
    return KernelRidge(
        center, scale, projection.float(), landmarks, coefficients, zero.clone(), zero - SURE, zero + SURE
    )


def principal_components(chunks: Iterator[Tensor]) -> Tensor:
    """Orthonormal directions of the largest variance about 0 of rows in chunks, [F, C], at most ``COMPONENTS``.

    >>> principal_components(iter([torch.tensor([[3.0, 0.0], [0.0, 1.0]], dtype=torch.float64)])).abs()
    tensor([[0., 1.],
            [1., 0.]], dtype=torch.float64)
    """
    count, gram = 0, torch.zeros(1, 1, dtype=torch.float64)
    for rows in chunks:
        count, gram = count + len(rows), gram + rows.T @ rows
    vectors: Tensor = torch.linalg.eigh(gram).eigenvectors
    return vectors[:, -min(COMPONENTS, count) :]


def gaussians(x: Tensor, y: Tensor) -> Tensor:
    """exp(-|x - y|^2) of all pairs of rows, [X, C] and [Y, C] -> [X, Y]."""
    y = y.to(x.dtype)
    squares = x.square().sum(dim=1)[:, None] + y.square().sum(dim=1) - 2 * x @ y.T
    return squares.clamp_(min=0).neg_().exp_()


class Sums(NamedTuple):
    """Weighted sums over molecules: of weights, features [L], values [T], and products [L, L] and [L, T]."""

    weight: Tensor
    x: Tensor
    y: Tensor
    xx: Tensor
    xy: Tensor

    @classmethod
    def over(cls, x: Tensor, y: Tensor, weight: Tensor) -> "Sums":
        """The sums over some rows of features and values."""
        weighted = weight[:, None] * x
        return cls(weight.sum(), weighted.sum(dim=0), weight @ y, x.T @ weighted, weighted.T @ y)

    def plus(self, other: "Sums", sign: int = 1) -> "Sums":
        return Sums(*(one.add(more, alpha=sign) for one, more in zip(self, other, strict=True)))


def solve_ridge(sums: Sums, penalties: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    r"""Weighted ridge regressions with an intercept for each penalty: coefficients [L, T], intercepts [T].

    .. math:: \min_{\beta, b}\; \sum_i w_i (y_i - b - x_i \beta)^2 + p\, t\, |\beta|^2,

    where :math:`t` is the mean of :math:`|x_i - \bar x|^2`.
    """
    x, y = sums.x / sums.weight, sums.y / sums.weight
    gram = sums.xx - sums.weight * torch.outer(x, x)
    right = sums.xy - sums.weight * torch.outer(x, y)
    spread = gram.trace() / sums.weight
    for penalty in penalties:
        factor = torch.linalg.cholesky(_with_diagonal(gram, float((penalty * spread).clamp(min=1e-9))))
        coefficients = torch.cholesky_solve(right, factor)
        yield coefficients, y - x @ coefficients


def _with_diagonal(matrix: Tensor, value: float) -> Tensor:
    """The matrix plus a multiple of the unit matrix."""
    result = matrix.clone()
    result.diagonal().add_(value)
    return result


def _whiten(kernel: Tensor, factor: Tensor) -> Tensor:
    """Features whose products are the kernel, exactly so at the landmarks: [G, L]."""
    features: Tensor = torch.linalg.solve_triangular(factor, kernel.T, upper=False)
    return features.T


def _cross_validated(x: Tensor, y: Tensor, weight: Tensor, fold: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Coefficients [L, T] and intercepts [T] with the best penalty of each target, and outputs out of fold, [R, T].

    Rows of no ``fold`` (``FOLDS``) have the outputs of the regression on all others.
    """
    sums = [_sum(x, y, weight, (fold == index) & (weight > 0)) for index in range(FOLDS)]
    total = reduce(Sums.plus, sums)
    outputs = torch.zeros(len(PENALTIES), *y.shape, dtype=torch.float64)
    for index, held in enumerate(sums):
        learned, rows = total.plus(held, -1), fold == index
        if not (weight[~rows] > 0).any():
            continue
        held_out = x[rows]
        for output, (coefficients, intercepts) in zip(outputs, solve_ridge(learned, PENALTIES), strict=True):
            output[rows] = held_out @ coefficients + intercepts
    best = torch.stack([weight @ (output - y).square() for output in outputs]).argmin(dim=0)
    coefficients, intercepts = torch.zeros_like(total.xy), torch.zeros_like(total.y)
    for index in sorted(set(best.tolist())):
        chosen = best == index
        of_all = next(solve_ridge(total, PENALTIES[index : index + 1]))
        coefficients[:, chosen], intercepts[chosen] = of_all[0][:, chosen], of_all[1][chosen]
    result = outputs.gather(0, best.expand(1, *y.shape))[0]
    result[fold == FOLDS] = x[fold == FOLDS] @ coefficients + intercepts
    return coefficients, intercepts, result


def _sum(x: Tensor, y: Tensor, weight: Tensor, chosen: Tensor) -> Sums:
    """The sums over chosen rows, of which few are copied at a time."""
    parts = torch.split(chosen.nonzero()[:, 0], CHUNK)
    return reduce(Sums.plus, (Sums.over(x[rows], y[rows], weight[rows]) for rows in parts))


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


def project(inputs: Inputs, center: Tensor, scale: Tensor, projection: Tensor) -> Tensor:
    """Where molecules lie among the landmarks, float64 [G, C]."""
    return standardize(inputs, center, scale) @ projection.double()


def _chunks(inputs: Inputs) -> Iterator[Inputs]:
    """Rows in parts whose copies in double precision take little memory, at least one."""
    return (inputs[start : start + CHUNK] for start in range(0, max(len(inputs), 1), CHUNK))


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


def as_outputs(linear: Tensor, ridge: KernelRidge, task: Task) -> Tensor:
    """The linear function within its limits; for several classes, the logarithms of their probabilities."""
    limited = linear.clamp(ridge.low, ridge.high)
    return (torch.nn.functional.logsigmoid(limited) if task == "multiclass" else limited).float()
