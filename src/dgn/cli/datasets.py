"""The graphs of many cells: each dataset is loaded once, and asked for once where it cannot be had."""

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgn.data.benchmarks import Benchmark
    from dgn.training.experiment import Experiment
    from dgn.training.settings import DataSettings


class Datasets:
    """Graphs of an experiment, loaded once for a dataset, with as many directions as any of its cells reads.

    A dataset that cannot be had is asked for once; its cells, but for those that are finished, are left out.
    """

    def __init__(self, experiments: Sequence["Experiment"], out: Path) -> None:
        self.experiments, self.out = experiments, out
        self.absent: set[str] = set()
        self._load = lru_cache(maxsize=1)(self._read)

    def __call__(self, experiment: "Experiment") -> "Benchmark":
        from dgn.training.load import any_directions

        try:
            return self._load(any_directions(experiment.data))
        except (FileNotFoundError, ImportError) as problem:
            name = experiment.data.dataset
            self.absent.add(name)
            others = sum(self.lacks(each) for each in self.experiments if each.data.dataset == name) - 1
            told = f"\n{name}: other cells that are left out: {others}" if others else ""
            raise FileNotFoundError(f"{problem}{told}") from problem

    def lacks(self, experiment: "Experiment") -> bool:
        """Whether a cell has to be left out."""
        return experiment.data.dataset in self.absent and not is_finished(experiment, self.out)

    def _read(self, wanted: "DataSettings") -> "Benchmark":
        from dgn.training.load import any_directions, load_graphs

        alike = [each for each in self.experiments if any_directions(each.data) == wanted]
        # Fewer directions are the first columns of more.
        return load_graphs(max(alike, key=lambda each: each.num_directions), True)


def is_finished(experiment: "Experiment", out: Path) -> bool:
    """Whether all seeds of a cell have their results."""
    from dgn.reports.runs import finished_runs

    return set(experiment.training.seeds) <= set(finished_runs(out / experiment.name))
