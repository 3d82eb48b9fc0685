"""The width of a network that keeps to a number of parameters."""

from dataclasses import replace

import torch

from dgn.training.build import build_for_inputs, count_parameters, inputs_for
from dgn.training.config import NetworkSettings
from dgn.training.experiment import Experiment


def fit_width(experiment: Experiment, parameters: int) -> Experiment:
    """The experiment with the largest ``hidden`` for at most so many parameters, at least one channel for each tower.

    ``last``, where it is given, stays as much narrower as it was. Networks grow with their width, so that halving an
    interval finds it.

    >>> from dgn.training.experiment import load_experiment
    >>> fit_width(load_experiment("zinc/complex-e/mean-dx1", ["network.hidden=10"]), 103_495).network.hidden
    52
    """
    step = experiment.network.towers

    def fits(towers_wide: int) -> bool:
        return size(widened(experiment, towers_wide * step)) <= parameters

    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return widened(experiment, low * step)


def widened(experiment: Experiment, hidden: int) -> Experiment:
    """The experiment with another width."""
    network: NetworkSettings = experiment.network
    last = None if network.last is None else max(network.towers, hidden + network.last - network.hidden)
    return replace(experiment, network=replace(network, hidden=hidden, last=last))


def size(experiment: Experiment) -> int:
    """The number of parameters of an experiment, without opening its graphs.

    >>> from dgn.training.experiment import load_experiment
    >>> size(load_experiment("zinc/tuned"))
    98035
    """
    with torch.device("meta"):  # where no number counts, and so not what the scalers divide by
        return count_parameters(build_for_inputs(experiment.network, inputs_for(experiment.data), delta=1.0))
