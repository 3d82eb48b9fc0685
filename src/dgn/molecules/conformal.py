"""Intervals that hold the truth as often as promised, from errors on molecules not trained on."""

import math

import torch
from torch import Tensor


def conformal_scores(truth: Tensor, prediction: Tensor, spread: Tensor, floor: Tensor) -> Tensor:
    """How large errors are in units of the uncertainty, sorted: |y - p| / (s + f).

    ``spread`` s is that of the ensemble, ``floor`` f keeps it from vanishing. A missing truth gives NaN, at the end.

    Shapes:
        ``truth``, ``prediction``, ``spread`` [V, T], ``floor`` [T]; returns [V, T].

    >>> conformal_scores(torch.tensor([[1.0], [5.0]]), torch.zeros(2, 1), torch.ones(2, 1), torch.ones(1)).tolist()
    [[0.5], [2.5]]
    """
    return ((truth - prediction).abs() / (spread + floor)).sort(dim=0).values


def half_width(scores: Tensor, level: float, spread: Tensor, floor: Tensor) -> Tensor:
    r"""Half the interval of each prediction: q (s + f), with q the score of rank $\lceil (n + 1) \ell \rceil$ of n.

    For molecules drawn like those that were scored, prediction ± half_width holds the truth with probability of at
    least ``level`` $\ell$. Where n is too small for that rank the interval is infinite.

    >>> half_width(torch.arange(1.0, 10)[:, None], 0.9, torch.ones(1, 1), torch.zeros(1)).tolist()
    [[9.0]]
    """
    check_level(level)
    known = (~scores.isnan()).sum(dim=0)
    rank = [math.ceil((count + 1) * level - 1e-9) for count in known.tolist()]
    found = [
        float(scores[place - 1, column]) if place <= int(known[column]) else math.inf
        for column, place in enumerate(rank)
    ]
    return (spread + floor) * torch.tensor(found, dtype=spread.dtype)


def too_few(scores: Tensor, level: float) -> str | None:
    """Why intervals of a level have no ends, if a target has too few validation molecules for it.

    >>> too_few(torch.zeros(21, 1), 0.99)
    'intervals of 99 % have no ends: they need at least 99 validation molecules, there are 21'
    """
    known, least = int((~scores.isnan()).sum(dim=0).min()), math.ceil(level / (1 - level) - 1e-9)
    if known >= least:
        return None
    need = f"they need at least {least} validation molecules, there are {known}"
    return f"intervals of {100 * level:g} % have no ends: {need}"


def check_level(level: float) -> None:
    """Refuse what is no level of an interval."""
    if not 0 < level < 1:
        raise ValueError(f"interval: expected a level between 0 and 1, got {level}; for example 0.9")
