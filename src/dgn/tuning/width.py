"""The width of a network for a budget of parameters."""

from dataclasses import replace

import torch

from dgn.training.build import build_for_inputs, count_parameters, inputs_for
from dgn.training.config import NetworkSettings
from dgn.training.experiment import Experiment


def fit_width(experiment: Experiment, parameters: int) -> Experiment:
    """The experiment with the largest ``hidden`` within a budget of parameters, at least one channel per tower.

    ``last``, if set, keeps its difference to ``hidden``. The size grows with the width, so that bisection finds it.

    >>> from dgn.training.experiment import load_experiment
    >>> fit_width(load_experiment("zinc/complex-e/mean-dx1", ["network.hidden=10"]), 103_495).network.hidden
    52
    """
    step = experiment.network.towers

    def fits(tower_width: int) -> bool:
        return size(widened(experiment, tower_width * step)) <= parameters

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
    """The number of parameters of an experiment, without loading its graphs.

    >>> from dgn.training.experiment import load_experiment
    >>> size(load_experiment("zinc/tuned"))
    98035
    """
    with torch.device("meta"):  # without values, so that delta does not matter
        return count_parameters(build_for_inputs(experiment.network, inputs_for(experiment.data), delta=1.0))
