"""Train the cells of the paper's tables that have no result yet, within a time limit.

    python -m reproduce.queue --data FOLDER --archive runs.tar.gz --minutes 9 --parallel 4 [--only zinc/plus ...]

A cell is finished when every seed of its experiment has a result, either committed in ``results/`` on the present data
or in the run folders below ``--runs``. The others are trained in the order of ``QUEUE``; a cell that is cut by the time
limit resumes from its checkpoint. ``--archive`` receives all results and the metrics of every epoch, also of unfinished
seeds, then checkpoints of unfinished cells, the smallest first, as long as the whole stays below ``LARGEST_ARCHIVE``.
It is written again while cells are trained, then without checkpoints: unpack it in the repository and run ``dgn
results --collect runs``.
"""

import argparse
import io
import json
import signal
import tarfile
import threading
from pathlib import Path

from safetensors import safe_open

from dgn.cli.datasets import is_finished
from dgn.cli.display import make_console, say
from dgn.cli.reproduce import run_cells
from dgn.data.benchmarks import load_benchmark
from dgn.reports.cells import choose
from dgn.reports.results import read_results
from dgn.reports.runs import EXPERIMENT, METRICS, RESULT, to_csv
from dgn.training.experiment import Experiment, load_experiment

QUEUE = (("table1", "zinc"), ("table2", "zinc"), ("plus", "zinc"), ("table2", "molpcba"), ("table1", "molpcba"))
RESULTS = Path("results")
LARGEST_ARCHIVE = 15 * 2**20  # bytes, before compression: checkpoints beyond it stay on the machine
CHECKPOINT = "checkpoint.safetensors"
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
    names = [cell.name for table, dataset in QUEUE for cell in choose(table, [dataset])]
    chosen = [name for name in names if not only or name.startswith(tuple(only))]
    cells = [load_experiment(name, [f"data.path={data}", *changes]) for name in chosen]
    notes = {dataset: load_benchmark(dataset, data).note for dataset in {cell.data.dataset for cell in cells}}
    committed = read_results(RESULTS)

    def has_results(cell: Experiment) -> bool:
        present = {run.seed for run in committed.get(cell.name, ()) if run.data == notes[cell.data.dataset]}
        return set(cell.training.seeds) <= present or is_finished(cell, runs)

    return [cell for cell in cells if not has_results(cell)]


class Archive:
    """Keeps a compressed copy of the results below a folder up to date while it is entered."""

    def __init__(self, runs: Path, file: Path | None) -> None:
        self.runs, self.file = runs, file
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        if self.file is not None:
            self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        if self.file is not None:
            self.thread.join()
            pack(self.runs, self.file)

    def _watch(self) -> None:
        assert self.file is not None
        packed: list[tuple[Path, float]] = []
        while not self.ended.wait(EVERY):
            files = [path for name in (RESULT, CHECKPOINT) for path in sorted(self.runs.rglob(f"seed-*/{name}"))]
            present = [(path, path.stat().st_mtime) for path in files]
            if present != packed:
                pack(self.runs, self.file, limit=0)  # without checkpoints, which training is writing
                packed = present


def pack(runs: Path, file: Path, limit: int = LARGEST_ARCHIVE) -> None:
    """Write results, settings and metrics, then checkpoints of unfinished seeds while ``limit`` bytes hold them."""
    results = [path for name in (RESULT, METRICS, EXPERIMENT) for path in sorted(runs.rglob(name))]
    begun = [path for path in runs.rglob(f"seed-*/{CHECKPOINT}") if not path.with_name(RESULT).exists()]
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f".{file.name}")
    with tarfile.open(partial, "w:gz") as archive:
        for path in results:
            archive.add(path, path.relative_to(runs.parent))
        for path in sorted(begun):
            add_text(archive, path.with_name(METRICS).relative_to(runs.parent), to_csv(read_epochs(path)))
        for path in sorted(begun, key=lambda path: path.stat().st_size):
            if archive.offset + path.stat().st_size <= limit:
                archive.add(path, path.relative_to(runs.parent))
    partial.replace(file)


def read_epochs(checkpoint: Path) -> list[dict[str, float]]:
    """The metrics of every epoch that a checkpoint tells of; its tensors are not read."""
    with safe_open(checkpoint, framework="pt") as file:
        history: list[dict[str, float]] = json.loads(file.metadata()["state"])["history"]
    return history


def add_text(archive: tarfile.TarFile, path: Path, text: str) -> None:
    """Add a file that is nowhere but in the archive."""
    about, data = tarfile.TarInfo(path.as_posix()), text.encode()
    about.size = len(data)
    archive.addfile(about, io.BytesIO(data))


if __name__ == "__main__":
    main()
