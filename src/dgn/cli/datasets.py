"""Datasets shared by several runs: loaded once, and a missing one reported once."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgn.data.benchmark import Benchmark
    from dgn.training.config import DataSettings
    from dgn.training.experiment import Experiment


class Graphs:
    """The benchmark of an experiment, reloaded only when the next one needs other data or more directions."""

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


class CacheWarmer:
    """Loads the graphs of an experiment once and frees them: worker processes then read the cache on disk."""

    def __init__(self) -> None:
        self.loaded: set[tuple[DataSettings, int]] = set()

    def __call__(self, experiment: "Experiment") -> None:
        from dgn.training.load import ignore_direction_count, load_graphs

        key = ignore_direction_count(experiment.data), experiment.num_directions
        if key not in self.loaded:
            load_graphs(experiment, progress=True)
            self.loaded.add(key)


@cache
def own_graphs() -> Graphs:
    """The loader of this process."""
    return Graphs(progress=False)


class Datasets:
    """Benchmarks of the cells of a table, loaded once per dataset with as many directions as any cell reads.

    A missing dataset is reported once; its unfinished cells are skipped.
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
            others = sum(self.lacks(cell) for cell in self.experiments if cell.data.dataset == name) - 1
            note = f"\n{name}: other cells that are left out: {others}" if others else ""
            raise FileNotFoundError(f"{problem}{note}") from problem

    def widest(self, experiment: "Experiment") -> "Experiment":
        """The cell on the same graphs with the most directions; the others read its first columns."""
        from dgn.training.load import ignore_direction_count

        data = ignore_direction_count(experiment.data)
        cells = [cell for cell in self.experiments if ignore_direction_count(cell.data) == data]
        return max(cells, key=lambda cell: cell.num_directions)

    def lacks(self, experiment: "Experiment") -> bool:
        """Whether a cell is skipped for lack of its dataset."""
        if experiment.data.dataset not in self.absent:
            return False
        try:
            return not is_finished(experiment, self.out)
        except ValueError:  # a damaged result, which cannot be retrained without its dataset
            return True


def is_finished(experiment: "Experiment", out: Path) -> bool:
    """Whether all seeds of a cell have their results."""
    from dgn.training.run_folder import finished_runs

    return set(experiment.training.seeds) <= set(finished_runs(out / experiment.name))
