"""The width of a network that comes closest to a number of parameters."""

from dataclasses import replace

from dgn.training.build import build_for_inputs, count_parameters, inputs_for
from dgn.training.experiment import Experiment
from dgn.training.settings import NetworkSettings


def fit_width(experiment: Experiment, parameters: int) -> Experiment:
    """The experiment with the ``hidden`` that comes closest to so many parameters, at least one channel for each tower.

    ``last``, where it is given, stays as much narrower as it was. Networks grow with their width, so that halving an
    interval finds it.

    >>> from dgn.training.experiment import load_experiment
    >>> fit_width(load_experiment("zinc/complex-e/mean-dx1", ["network.hidden=10"]), 103_495).network.hidden
    52
    """
    network, step = experiment.network, experiment.network.towers
    inputs = inputs_for(experiment.data)

    def count(towers_wide: int) -> int:
        return count_parameters(build_for_inputs(_widened(network, towers_wide * step), inputs))

    low, high = 1, 2
    while count(high) < parameters:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if count(middle) < parameters else (low, middle)
    best = min((low, high), key=lambda width: abs(count(width) - parameters))
    return replace(experiment, network=_widened(network, best * step))


def _widened(network: NetworkSettings, hidden: int) -> NetworkSettings:
    last = None if network.last is None else max(network.towers, hidden + network.last - network.hidden)
    return replace(network, hidden=hidden, last=last)
