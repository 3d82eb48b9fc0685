"""When a trial is given up."""

import json
from pathlib import Path
from typing import Any

import pytest

from dgn.training.experiment import load_experiment
from dgn.training.run import EpochReport
from dgn.tuning.pruning import FEWEST, TrialPruned, Watch


def make(folder: Path, name: str = "digits/mean", epochs: int = 10, seeds: Any = "[41]") -> Watch:
    return Watch(folder, load_experiment(name, [f"training.epochs={epochs}", f"training.seeds={seeds}"]))


def tell(watch: Watch, epoch: int, *scores: float, best: float | None = None) -> None:
    for seed, score in enumerate(scores):
        watch(EpochReport(seed, epoch, watch.epochs, 1e-3, 1.0, 1.0, {watch.metric: score}, 1.0, 1.0, best))


def others(folder: Path, scores: list[float], share: str = "0.3") -> None:
    for number, score in enumerate(scores):
        (folder / f"trial-{number}").mkdir()
        (folder / f"trial-{number}/checks.json").write_text(json.dumps({share: score}))


@pytest.mark.parametrize(("name", "good", "bad"), [("digits/mean", 0.61, 0.59), ("zinc/tuned", 0.59, 0.61)])
def test_the_worse_half_is_given_up(tmp_path: Path, name: str, good: float, bad: float) -> None:
    others(tmp_path, [0.4, 0.5, 0.6, 0.7, 0.8])
    tell(make(tmp_path / "equal", name), 3, 0.6)
    tell(make(tmp_path / "good", name), 3, good)
    with pytest.raises(TrialPruned, match=r"after 3 of 10 epochs: validation \w+ [\d.]+ there, where the median of 7"):
        tell(make(tmp_path / "bad", name), 3, bad)


def test_only_the_same_share_of_epochs_counts(tmp_path: Path) -> None:
    others(tmp_path, [0.9] * FEWEST, share="0.6")
    watch = make(tmp_path / "mine", epochs=500)
    for epoch in (1, 149, 150, 151, 299):
        tell(watch, epoch, 0.1)
    assert json.loads((tmp_path / "mine/checks.json").read_text()) == {"0.3": 0.1}
    with pytest.raises(TrialPruned, match="after 300 of 500 epochs"):
        tell(watch, 300, 0.1)
    assert json.loads((tmp_path / "mine/checks.json").read_text()) == {"0.3": 0.1, "0.6": 0.1}


def test_few_others_decide_nothing(tmp_path: Path) -> None:
    others(tmp_path, [0.9] * (FEWEST - 1))
    tell(make(tmp_path / "mine"), 3, 0.1)
    tell(make(tmp_path / "mine"), 3, 0.1)  # gone on with: what it had itself before does not count


def test_what_diverged_is_no_measure_for_others(tmp_path: Path) -> None:
    tell(make(tmp_path / "mine", seeds="[1, 2]"), 3, 0.1, float("nan"))
    assert not (tmp_path / "mine").exists()


def test_the_mean_over_seeds_counts(tmp_path: Path) -> None:
    others(tmp_path, [0.5] * FEWEST)
    tell(make(tmp_path / "mine", seeds="[1, 2]"), 3, 0.1, 0.9)
    with pytest.raises(TrialPruned, match=r"accuracy 45\.00 there"):
        tell(make(tmp_path / "worse", seeds="[1, 2]"), 3, 0.1, 0.8)


def test_where_the_best_epoch_counts_it_is_compared(tmp_path: Path) -> None:
    others(tmp_path, [0.5] * FEWEST)
    tell(make(tmp_path / "mine"), 3, 0.1, best=0.6)
    assert json.loads((tmp_path / "mine/checks.json").read_text()) == {"0.3": 0.6}
