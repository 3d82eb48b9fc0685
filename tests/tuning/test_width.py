"""Widths that keep a budget."""

import pytest

from dgn.training.experiment import load_experiment
from dgn.tuning.width import fit_width, size


@pytest.mark.parametrize("name", ["zinc/simple/mean", "zinc/tuned", "pattern/complex/mean-av1", "cifar10/tuned"])
@pytest.mark.parametrize("start", ["network.hidden=40", "network.hidden=200"])
def test_a_published_width_is_found_from_its_parameters(name: str, start: str) -> None:
    published = load_experiment(name)
    network = published.network
    last = [] if network.last is None else [f"network.last={int(start.split('=')[1]) - network.hidden + network.last}"]
    assert fit_width(load_experiment(name, [start, *last]), size(published)).network == network


def test_one_channel_more_would_break_the_budget() -> None:
    fitted = fit_width(load_experiment("zinc/complex/mean-dx1"), 50_000)
    more = load_experiment("zinc/complex/mean-dx1", [f"network.hidden={fitted.network.hidden + 1}"])
    assert size(fitted) <= 50_000 < size(more)


def test_a_tiny_budget_gives_one_channel_for_each_tower() -> None:
    assert fit_width(load_experiment("zinc/tuned", ["network.last=null"]), 1).network.hidden == 5
