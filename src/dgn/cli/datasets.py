"""Graphs that many runs share: loaded once, and asked for once where they cannot be had."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgn.data.benchmark import Benchmark
    from dgn.training.config import DataSettings
    from dgn.training.experiment import Experiment


class Graphs:
    """The graphs of the last experiment, loaded again only when the next needs others or more directions."""

    def __init__(self, progress: bool = True) -> None:
        self.progress = progress
        self.benchmark: Benchmark | None = None
        self.directions = 0
        self.data: DataSettings | None = None

    def __call__(self, experiment: "Experiment") -> "Benchmark":
        from dgn.training.load import ignore_direction_count, load_graphs

        data = ignore_direction_count(experiment.data)
        if self.benchmark is None or data != self.data or self.directions < experiment.num_directions:
            self.benchmark = load_graphs(experiment, self.progress)
            self.directions, self.data = experiment.num_directions, data
        return self.benchmark


class Prepared:
    """Loads the graphs of an experiment once and lets go of them: other processes find what that left in the cache."""

    def __init__(self) -> None:
        self.known: set[tuple[DataSettings, int]] = set()

    def __call__(self, experiment: "Experiment") -> None:
        from dgn.training.load import ignore_direction_count, load_graphs

        asked = ignore_direction_count(experiment.data), experiment.num_directions
        if asked not in self.known:
            load_graphs(experiment, progress=True)
            self.known.add(asked)


@cache
def own_graphs() -> Graphs:
    """Those of this process."""
    return Graphs(progress=False)


class Datasets:
    """Graphs of an experiment, loaded once for a dataset, with as many directions as any of its cells reads.

    A dataset that cannot be had is asked for once; its cells, but for those that are finished, are left out.
    """

    def __init__(self, experiments: Sequence["Experiment"], out: Path) -> None:
        self.experiments, self.out = experiments, out
        self.absent: set[str] = set()
        self.graphs = Graphs()

    def __call__(self, experiment: "Experiment") -> "Benchmark":
        try:
            return self.graphs(self.widest(experiment))
        except (FileNotFoundError, ImportError) as problem:
            name = experiment.data.dataset
            self.absent.add(name)
            others = sum(self.lacks(each) for each in self.experiments if each.data.dataset == name) - 1
            told = f"\n{name}: other cells that are left out: {others}" if others else ""
            raise FileNotFoundError(f"{problem}{told}") from problem

    def widest(self, experiment: "Experiment") -> "Experiment":
        """The cell on the same graphs that reads the most directions: fewer are the first columns of more."""
        from dgn.training.load import ignore_direction_count

        wanted = ignore_direction_count(experiment.data)
        alike = [each for each in self.experiments if ignore_direction_count(each.data) == wanted]
        return max(alike, key=lambda each: each.num_directions)

    def lacks(self, experiment: "Experiment") -> bool:
        """Whether a cell has to be left out."""
        if experiment.data.dataset not in self.absent:
            return False
        try:
            return not is_finished(experiment, self.out)
        except ValueError:  # a damaged result, which cannot be trained again without its dataset
            return True


def is_finished(experiment: "Experiment", out: Path) -> bool:
    """Whether all seeds of a cell have their results."""
    from dgn.training.run_folder import finished_runs

    return set(experiment.training.seeds) <= set(finished_runs(out / experiment.name))
