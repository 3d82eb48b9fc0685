"""The model card says what was not scored, and which intervals are missing."""

from dataclasses import replace
from pathlib import Path

import torch

from dgn.molecules.columns import Target
from dgn.molecules.fit import Fitted
from dgn.molecules.model_card import interval_words, score_table


def test_a_target_without_scores_or_intervals_is_named(fitted: tuple[Fitted, Path]) -> None:
    scores = torch.full((20, 2), float("nan"))
    scores[:, 0] = 1.0
    model = replace(fitted[0].model, targets=(Target("y"), Target("z")), scores=scores)
    rows = [row[:2] for row in score_table(model).rows]
    assert rows == [("y", "9"), ("z", "-"), ("mean", "9")]
    assert (
        "With 0 validation molecules there are too few for such intervals of z: they are infinite."
        in interval_words(model)
    )
