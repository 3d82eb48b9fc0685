"""Scores over seeds, in the units of the paper."""

from typing import Any

import pytest

from dgn.training.experiment import load_experiment
from dgn.training.scores import Score, main_metric, published_score, summarize


def test_mean_and_deviation_over_seeds(make_run: Any) -> None:
    score = summarize([make_run(seed=seed, test=test) for seed, test in ((1, 0.1), (2, 0.2), (3, 0.6))])
    assert score.mean == pytest.approx(0.3)
    assert score.deviation == pytest.approx((0.14 / 2) ** 0.5)
    assert str(score) == "0.300 ± 0.265"


def test_one_seed_has_no_deviation() -> None:
    assert Score("mae", (0.5,)).deviation is None


def test_scores_other_than_errors_are_percent(make_run: Any) -> None:
    score = summarize([make_run("molhiv/tuned", test=0.797)])
    assert score.mean == pytest.approx(79.7)
    assert str(score) == "79.70"


def test_another_metric_may_count() -> None:
    assert main_metric(load_experiment("pattern/tuned")) == "balanced-accuracy"
    assert main_metric(load_experiment("pattern/tuned", ["training.metric=accuracy"])) == "accuracy"


def test_what_the_paper_reports() -> None:
    assert published_score(load_experiment("zinc/tuned")) == "0.168 ± 0.003"
    assert published_score(load_experiment("zinc/simple/mean")) == "0.316"
    assert published_score(load_experiment("digits/mean")) == "-"
