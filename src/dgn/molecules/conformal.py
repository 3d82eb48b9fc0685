"""Normalized conformal prediction intervals, calibrated on the validation split."""

import math

import torch
from torch import Tensor


def difficulty(spread: Tensor, floor: Tensor, novelty: Tensor) -> Tensor:
    """The scale of the expected error, (s + f) (1 + v): what intervals are proportional to.

    ``spread`` s is the standard deviation over the ensemble (NaN for a single member: 0), ``floor`` f keeps it from
    vanishing, ``novelty`` v is the distance from the training molecules (:class:`dgn.molecules.domain.Comparison`).

    Shapes:
        ``spread`` [G, T], ``floor`` [T], ``novelty`` [G]; returns [G, T].

    >>> difficulty(torch.tensor([[1.0], [torch.nan]]), torch.tensor([0.5]), torch.tensor([0.0, 1.0])).tolist()
    [[1.5], [1.0]]
    """
    return (spread.nan_to_num() + floor) * (1 + novelty[:, None])


def conformal_scores(truth: Tensor, prediction: Tensor, difficulty: Tensor) -> Tensor:
    """Errors in units of the difficulty d, sorted: |y - p| / d. A missing truth gives NaN, sorted to the end.

    Shapes:
        all [V, T].

    >>> conformal_scores(torch.tensor([[1.0], [5.0]]), torch.zeros(2, 1), torch.full((2, 1), 2.0)).tolist()
    [[0.5], [2.5]]
    """
    return ((truth - prediction).abs() / difficulty).sort(dim=0).values


def half_width(scores: Tensor, level: float, difficulty: Tensor) -> Tensor:
    r"""Half-widths of the intervals: q d, with q the score of rank $\lceil (n + 1) \ell \rceil$ of n.

    For molecules exchangeable with the scored ones, prediction ± half_width contains the truth with probability of at
    least ``level`` $\ell$. If n is too small for that rank, the interval is infinite.

    >>> half_width(torch.arange(1.0, 10)[:, None], 0.9, torch.ones(1, 1)).tolist()
    [[9.0]]
    """
    check_level(level)
    counts = (~scores.isnan()).sum(dim=0).tolist()
    ranks = [quantile_rank(count, level) for count in counts]
    quantiles = [
        float(scores[rank - 1, column]) if rank <= count else math.inf
        for column, (rank, count) in enumerate(zip(ranks, counts, strict=True))
    ]
    return difficulty * torch.tensor(quantiles, dtype=difficulty.dtype)


def quantile_rank(count: int, level: float) -> int:
    r"""The rank $\lceil (n + 1) \ell \rceil$ of the score that intervals take; with more than n, they are infinite.

    >>> quantile_rank(9, 0.9), quantile_rank(8, 0.9)
    (9, 9)
    """
    return math.ceil((count + 1) * level - 1e-9)


def too_few(scores: Tensor, level: float) -> str | None:
    """A message if a target has too few validation molecules for finite intervals of a level, else None.

    >>> too_few(torch.zeros(21, 1), 0.99)
    'intervals of 99 % are infinite: they need at least 99 validation molecules, got 21'
    """
    count, least = int((~scores.isnan()).sum(dim=0).min()), math.ceil(level / (1 - level) - 1e-9)
    if count >= least:
        return None
    return f"intervals of {100 * level:g} % are infinite: they need at least {least} validation molecules, got {count}"


def check_level(level: float) -> None:
    """Refuse a level outside of (0, 1)."""
    if not 0 < level < 1:
        raise ValueError(f"interval: expected a level between 0 and 1, got {level}; for example 0.9")
