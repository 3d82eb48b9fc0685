"""Conformal intervals have the coverage of their level."""

import math

import pytest
import torch

from dgn.molecules.conformal import conformal_scores, difficulty, half_width


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_equals_the_level(level: float) -> None:
    generator = torch.Generator().manual_seed(0)
    count, trials = 99, 400
    spread = torch.rand(count + 1, trials, generator=generator, dtype=torch.float64) + 0.1
    normal = torch.randn(count + 1, trials, generator=generator, dtype=torch.float64)
    novelty = 3 * torch.rand(count + 1, generator=generator, dtype=torch.float64)
    scale = difficulty(spread, torch.full((trials,), 0.05, dtype=torch.float64), novelty)
    truth = scale * normal
    scores = conformal_scores(truth[:count], torch.zeros_like(truth[:count]), scale[:count])
    half = half_width(scores, level, scale[count:])
    covered = float((truth[count:].abs() <= half).double().mean())
    assert covered == pytest.approx(level, abs=4 * math.sqrt(level * (1 - level) / trials))


def test_missing_truths_do_not_count() -> None:
    truth = torch.tensor([[1.0], [math.nan], [3.0], [2.0]])
    scores = conformal_scores(truth, torch.zeros(4, 1), torch.ones(4, 1))
    assert half_width(scores, 0.5, torch.ones(1, 1)).tolist() == [[2.0]]
    assert half_width(scores, 0.75, torch.ones(1, 1)).tolist() == [[3.0]]


def test_too_few_molecules_give_infinite_intervals() -> None:
    assert half_width(torch.ones(8, 1), 0.9, torch.ones(1, 1)).isinf().all()
    with pytest.raises(ValueError, match="between 0 and 1"):
        half_width(torch.ones(8, 1), 1.0, torch.ones(1, 1))
