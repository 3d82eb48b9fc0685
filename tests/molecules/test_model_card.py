"""The model card names targets without scores or intervals."""

from dataclasses import replace
from pathlib import Path

import torch

from dgn.molecules.columns import Target
from dgn.molecules.conformal import half_width
from dgn.molecules.fit import Fitted
from dgn.molecules.model_card import coverage_notes, interval_text, score_table, write_card


def test_a_target_without_scores_or_intervals_is_named(fitted: tuple[Fitted, Path]) -> None:
    scores = torch.full((20, 2), float("nan"))
    scores[:, 0] = 1.0
    model = replace(fitted[0].model, targets=(Target("y"), Target("z")), scores=scores)
    rows = [row[:2] for row in score_table(model).rows]
    assert rows == [("y", "9"), ("z", "-"), ("mean", "9")]
    assert "Intervals of z are infinite: 0 validation molecules are too few." in interval_text(model)


def test_coverage_far_from_the_promise_is_stated(fitted: tuple[Fitted, Path]) -> None:
    model = fitted[0].model

    def covering(coverage: float, molecules: int, validation: int = 1000) -> str:
        test = {"targets": {"y": {"coverage": coverage, "molecules": molecules}}, "mean": {}}
        facts = {**model.facts, "metrics": {"test": test}}
        return write_card(replace(model, facts=facts, scores=torch.ones(validation, 1)), "table", None)

    assert "The 90 % intervals of y cover 45 % of the test split: its molecules are not" in covering(0.45, 100)
    assert "The 90 % intervals of y cover 99 % of the test split: they are wider than" in covering(0.99, 300)
    assert "of the test split:" not in covering(0.87, 100)
    assert "of the test split:" not in covering(0.75, 8)  # two of eight are chance
    assert "of the test split:" in covering(0.78, 100)
    assert "of the test split:" not in covering(0.78, 100, 20)  # the half-width of so few molecules is chance
    assert "of the test split:" not in covering(1.0, 1000, 8)  # infinite


def test_the_warning_of_coverage_is_rarely_a_false_alarm(fitted: tuple[Fitted, Path]) -> None:
    """Validation and test scores of one distribution: at most 1 % are told to differ."""
    model, rng = fitted[0].model, torch.Generator().manual_seed(0)
    alarms = 0
    for _ in range(600):
        scores, test = (torch.rand(size, 1, generator=rng, dtype=torch.float64) for size in (40, 400))
        scores = scores.sort(dim=0).values
        coverage = float((test <= half_width(scores, 0.9, torch.ones(1, 1, dtype=torch.float64))).double().mean())
        facts = {"interval": 0.9, "metrics": {"test": {"targets": {"y": {"coverage": coverage, "molecules": 400}}}}}
        alarms += len(coverage_notes(replace(model, facts=facts, scores=scores)))
    assert alarms <= 12
