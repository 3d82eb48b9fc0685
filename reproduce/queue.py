"""Train the cells of the paper's tables that have no result yet, within a time limit.

    python -m reproduce.queue --data FOLDER --archive runs.tar.gz --minutes 9 --parallel 4 [--only zinc/plus ...]

A cell is finished when every seed of its experiment has a result, either committed in ``results/`` on the present data
or in the run folders below ``--runs``. The others are trained in the order of ``QUEUE``; a cell that is cut by the time
limit resumes from its checkpoint. ``--archive`` receives all results, and the checkpoints of unfinished cells as long
as they are small, each time one more seed finishes: unpack it in the repository and run ``dgn results --collect runs``.
"""

import argparse
import signal
import tarfile
import threading
from pathlib import Path

from dgn.cli.datasets import is_finished
from dgn.cli.display import make_console, say
from dgn.cli.reproduce import run_cells
from dgn.data.benchmarks import load_benchmark
from dgn.reports.cells import choose
from dgn.reports.results import read_results
from dgn.training.experiment import Experiment, load_experiment

QUEUE = (("table1", "zinc"), ("table2", "zinc"), ("plus", "zinc"), ("table2", "molpcba"), ("table1", "molpcba"))
RESULTS = Path("results")
LARGEST_CHECKPOINT = 2**22  # bytes: larger ones stay on the machine
EVERY = 15.0  # seconds between two looks for new results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with the graphs of all datasets")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--archive", type=Path, help="file for results and small checkpoints")
    parser.add_argument("--minutes", type=float, help="stop after this time; the next call resumes")
    parser.add_argument("--parallel", type=int, default=1, help="cells at once, each in a process of its own")
    parser.add_argument("--only", nargs="+", default=[], help="beginnings of experiment names")
    parser.add_argument("--set", nargs="+", default=[], help="settings, as training.precision=bf16-mixed")
    parser.add_argument("--device", default="auto")
    asked = parser.parse_args()
    console = make_console()
    cells = unfinished(asked.data, asked.runs, asked.only, asked.set)
    say(console, f"unfinished: {', '.join(cell.name for cell in cells) or 'none'}")
    if asked.minutes is not None:
        signal.signal(signal.SIGALRM, signal.default_int_handler)  # as Ctrl-C: checkpoints are kept
        signal.setitimer(signal.ITIMER_REAL, 60 * asked.minutes)
    with Archive(asked.runs, asked.archive):
        run_cells(console, cells, asked.runs, asked.device, curves=False, parallel=min(asked.parallel, len(cells) or 1))


def unfinished(data: str, runs: Path, only: list[str], changes: list[str]) -> list[Experiment]:
    """The cells without a result of every seed, in the order in which they are trained."""
    cells = [cell for table, dataset in QUEUE for cell in choose(table, [dataset])]
    cells = [cell for cell in cells if not only or cell.name.startswith(tuple(only))]
    notes = {dataset: load_benchmark(dataset, data).note for dataset in {cell.data.dataset for cell in cells}}
    committed = read_results(RESULTS)

    def has_results(cell: Experiment) -> bool:
        present = {run.seed for run in committed.get(cell.name, ()) if run.data == notes[cell.data.dataset]}
        return set(cell.training.seeds) <= present or is_finished(cell, runs)

    return [load_experiment(cell.name, [f"data.path={data}", *changes]) for cell in cells if not has_results(cell)]


class Archive:
    """Keeps a compressed copy of the results below a folder up to date while it is entered."""

    def __init__(self, runs: Path, file: Path | None) -> None:
        self.runs, self.file = runs, file
        self.packed: list[Path] = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self.file is not None:
            self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.file is not None:
            self.thread.join()
            self._pack(self._results() + self._checkpoints())

    def _watch(self) -> None:
        while not self.ended.wait(EVERY):
            results = self._results()
            if results != self.packed:
                self._pack(results)
                self.packed = results

    def _results(self) -> list[Path]:
        return sorted(path for name in ("result.json", "metrics.csv") for path in self.runs.rglob(f"seed-*/{name}"))

    def _checkpoints(self) -> list[Path]:
        begun = [path for path in self.runs.rglob("seed-*/*") if not (path.parent / "result.json").exists()]
        settings = sorted(self.runs.rglob("experiment.yaml"))
        return settings + sorted(path for path in begun if path.stat().st_size <= LARGEST_CHECKPOINT)

    def _pack(self, files: list[Path]) -> None:
        assert self.file is not None
        partial = self.file.with_name(f".{self.file.name}")
        with tarfile.open(partial, "w:gz") as archive:
            for path in files:
                archive.add(path)
        partial.replace(self.file)


if __name__ == "__main__":
    main()
