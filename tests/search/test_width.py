"""Widths that keep a budget."""

import pytest

from dgn.search.width import fit_width
from dgn.training.build import build_for_inputs, count_parameters, known_inputs
from dgn.training.experiment import Experiment, load_experiment


def count(experiment: Experiment) -> int:
    return count_parameters(build_for_inputs(experiment.network, known_inputs(experiment.data.dataset)))


@pytest.mark.parametrize("name", ["zinc/simple/mean", "zinc/tuned", "pattern/complex/mean-av1", "cifar10/tuned"])
@pytest.mark.parametrize("start", ["network.hidden=40", "network.hidden=200"])
def test_a_published_width_is_found_from_its_parameters(name: str, start: str) -> None:
    published = load_experiment(name)
    network = published.network
    last = [] if network.last is None else [f"network.last={int(start.split('=')[1]) - network.hidden + network.last}"]
    assert fit_width(load_experiment(name, [start, *last]), count(published)).network == network


def test_no_other_width_is_closer() -> None:
    fitted = fit_width(load_experiment("zinc/complex/mean-dx1"), 50_000)
    distance = abs(count(fitted) - 50_000)
    for hidden in (fitted.network.hidden - 1, fitted.network.hidden + 1):
        other = load_experiment("zinc/complex/mean-dx1", [f"network.hidden={hidden}"])
        assert abs(count(other) - 50_000) > distance


def test_a_tiny_budget_gives_one_channel_for_each_tower() -> None:
    assert fit_width(load_experiment("zinc/tuned", ["network.last=null"]), 1).network.hidden == 5
