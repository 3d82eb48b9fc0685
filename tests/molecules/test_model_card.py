"""The model card names targets without scores or intervals."""

from dataclasses import replace
from pathlib import Path

import torch

from dgn.molecules.columns import Target
from dgn.molecules.fit import Fitted
from dgn.molecules.model_card import interval_text, score_table, write_card


def test_a_target_without_scores_or_intervals_is_named(fitted: tuple[Fitted, Path]) -> None:
    scores = torch.full((20, 2), float("nan"))
    scores[:, 0] = 1.0
    model = replace(fitted[0].model, targets=(Target("y"), Target("z")), scores=scores)
    rows = [row[:2] for row in score_table(model).rows]
    assert rows == [("y", "9"), ("z", "-"), ("mean", "9")]
    assert "Intervals of z are infinite: 0 validation molecules are too few." in interval_text(model)


def test_coverage_far_from_the_promise_is_stated(fitted: tuple[Fitted, Path]) -> None:
    model = fitted[0].model

    def covering(coverage: float, molecules: int) -> str:
        test = {"targets": {"y": {"coverage": coverage, "molecules": molecules}}, "mean": {}}
        facts = {**model.facts, "metrics": {"test": test}}
        return write_card(replace(model, facts=facts), "table", None)

    assert "The 90 % intervals of y cover 45 % of the test split" in covering(0.45, 100)
    assert "of the test split:" not in covering(0.87, 100)
    assert "of the test split:" not in covering(0.75, 8)  # two of eight are chance
