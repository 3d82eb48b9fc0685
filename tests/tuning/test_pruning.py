"""Median pruning of trials."""

import json
from pathlib import Path
from typing import Any

import pytest

from dgn.training.experiment import load_experiment
from dgn.training.run import EpochReport
from dgn.tuning.pruning import FEWEST, TrialPruned, Watch


def make(folder: Path, name: str = "digits/mean", epochs: int = 10, seeds: Any = "[41]") -> Watch:
    return Watch(folder, load_experiment(name, [f"training.epochs={epochs}", f"training.seeds={seeds}"]))


def report(watch: Watch, epoch: int, *scores: float, best: float | None = None) -> None:
    for seed, score in enumerate(scores):
        watch(EpochReport(seed, epoch, watch.epochs, 1e-3, 1.0, 1.0, {watch.metric: score}, 1.0, 1.0, best))


def write_others(folder: Path, scores: list[float], fraction: str = "0.3") -> None:
    for index, score in enumerate(scores):
        (folder / f"trial-{index}").mkdir()
        (folder / f"trial-{index}/checks.json").write_text(json.dumps({fraction: score}))


@pytest.mark.parametrize(("name", "good", "bad"), [("digits/mean", 0.61, 0.59), ("zinc/tuned", 0.59, 0.61)])
def test_a_trial_below_the_median_is_pruned(tmp_path: Path, name: str, good: float, bad: float) -> None:
    write_others(tmp_path, [0.4, 0.5, 0.6, 0.7, 0.8])
    report(make(tmp_path / "equal", name), 3, 0.6)
    report(make(tmp_path / "good", name), 3, good)
    with pytest.raises(TrialPruned, match=r"after 3 of 10 epochs: validation \w+ [\d.]+, median of 7 others"):
        report(make(tmp_path / "bad", name), 3, bad)


def test_scores_are_compared_after_the_same_fraction_of_epochs(tmp_path: Path) -> None:
    write_others(tmp_path, [0.9] * FEWEST, fraction="0.6")
    watch = make(tmp_path / "mine", epochs=500)
    for epoch in (1, 149, 150, 151, 299):
        report(watch, epoch, 0.1)
    assert json.loads((tmp_path / "mine/checks.json").read_text()) == {"0.3": 0.1}
    with pytest.raises(TrialPruned, match="after 300 of 500 epochs"):
        report(watch, 300, 0.1)
    assert json.loads((tmp_path / "mine/checks.json").read_text()) == {"0.3": 0.1, "0.6": 0.1}


def test_no_trial_is_pruned_with_few_others(tmp_path: Path) -> None:
    write_others(tmp_path, [0.9] * (FEWEST - 1))
    report(make(tmp_path / "mine"), 3, 0.1)
    report(make(tmp_path / "mine"), 3, 0.1)  # resumed: its own earlier score does not count


def test_a_diverged_trial_leaves_no_score(tmp_path: Path) -> None:
    report(make(tmp_path / "mine", seeds="[1, 2]"), 3, 0.1, float("nan"))
    assert not (tmp_path / "mine").exists()


def test_the_mean_over_seeds_is_compared(tmp_path: Path) -> None:
    write_others(tmp_path, [0.5] * FEWEST)
    report(make(tmp_path / "mine", seeds="[1, 2]"), 3, 0.1, 0.9)
    with pytest.raises(TrialPruned, match=r"accuracy 45\.00,"):
        report(make(tmp_path / "worse", seeds="[1, 2]"), 3, 0.1, 0.8)


def test_the_best_score_so_far_is_compared_where_it_is_reported(tmp_path: Path) -> None:
    write_others(tmp_path, [0.5] * FEWEST)
    report(make(tmp_path / "mine"), 3, 0.1, best=0.6)
    assert json.loads((tmp_path / "mine/checks.json").read_text()) == {"0.3": 0.6}
