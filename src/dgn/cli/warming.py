"""Kernels compiled ahead: processes of their own try the networks of later cells while the first ones train.

A kernel is compiled once on a machine for each kind of network, which takes longer than many epochs. Each process
trains every network given to it for one short epoch, and leaves nothing but compiled kernels in their usual cache.
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgn.training.experiment import Experiment

FRACTION = 0.05  # of the training graphs
Processes = list[subprocess.Popen[str]]


@contextmanager
def warming_up(experiments: Sequence["Experiment"], processes: int, device: str) -> Iterator[Processes]:
    """Start up to ``processes`` that try the experiments, and end them at the latest with what is done meanwhile.

    Networks that differ in nothing are tried once. The graphs must be at hand: experiments are of one dataset, whose
    eigenvectors have been computed.
    """
    kinds = list({json.dumps(each.to_dict()["network"]): each for each in experiments}.values())
    parts = [kinds[number::processes] for number in range(min(processes, len(kinds)))]
    most = max((each.num_directions for each in experiments), default=0)
    started = [_start([short(each, most) for each in part], device) for part in parts]
    try:
        yield started
    finally:
        for process in started:
            process.terminate()
            process.wait()


def short(experiment: "Experiment", directions: int) -> "Experiment":
    """One epoch of few graphs, with as many directions as were computed for all cells.

    >>> from dgn.training.experiment import load_experiment
    >>> brief = short(load_experiment("zinc/tuned"), 2)
    >>> brief.training.epochs, brief.data.train_fraction, brief.num_directions
    (1, 0.05, 2)
    """
    data = replace(experiment.data, train_fraction=FRACTION, directions=directions or None)
    return replace(experiment, data=data, training=replace(experiment.training, epochs=1, seeds=(0,)))


def _start(experiments: Sequence["Experiment"], device: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "dgn.cli.warming", device]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stdin is not None
    process.stdin.write(json.dumps([each.to_dict() for each in experiments]))
    process.stdin.close()
    return process


def main() -> None:
    """Try the experiments that come as JSON on the standard input, on the device named by the first argument."""
    from dgn.training.experiment import read_experiment
    from dgn.training.load import load_graphs
    from dgn.training.loop import train

    experiments = [read_experiment(told) for told in json.load(sys.stdin)]
    benchmark = load_graphs(experiments[0])
    for experiment in experiments:
        train(experiment, benchmark, experiment.training.seeds, None, sys.argv[1])


if __name__ == "__main__":
    main()
