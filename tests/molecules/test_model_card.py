"""The model card names targets without scores or intervals."""

from dataclasses import replace
from pathlib import Path

import torch

from dgn.molecules.columns import Target
from dgn.molecules.fit import Fitted
from dgn.molecules.model_card import interval_text, score_table


def test_a_target_without_scores_or_intervals_is_named(fitted: tuple[Fitted, Path]) -> None:
    scores = torch.full((20, 2), float("nan"))
    scores[:, 0] = 1.0
    model = replace(fitted[0].model, targets=(Target("y"), Target("z")), scores=scores)
    rows = [row[:2] for row in score_table(model).rows]
    assert rows == [("y", "9"), ("z", "-"), ("mean", "9")]
    assert "Intervals of z are infinite: 0 validation molecules are too few." in interval_text(model)
