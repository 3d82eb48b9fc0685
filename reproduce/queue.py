"""``python -m reproduce queue``: train the cells without results, within a time limit."""

import io
import json
import signal
import tarfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from safetensors import safe_open

from dgn.cli.datasets import is_finished
from dgn.cli.display import echo, make_console
from dgn.data.benchmark import load_benchmark
from dgn.data.io.atomic import atomic_file
from dgn.training.experiment import Experiment, load_experiment
from dgn.training.run_folder import EXPERIMENT, METRICS, RESULT, to_csv
from reproduce.cells import choose
from reproduce.results import read_results
from reproduce.run import run_cells

QUEUE = (
    ("table1", "zinc"),
    ("table2", "zinc"),
    ("plus", "zinc"),
    ("table2", "molpcba"),
    ("table1", "molpcba"),
    ("augmentation", "cifar10"),
    ("plus", "peptides-func"),
)
RESULTS = Path("results")
LARGEST_ARCHIVE = 15 * 2**20  # bytes before compression; larger checkpoints stay on the machine
CHECKPOINT = "checkpoint.safetensors"
POLL_SECONDS = 15.0  # between two checks for new results


def command(
    data: Annotated[str, typer.Option(help="Folder with all datasets.")],
    runs: Annotated[Path, typer.Option(help="Folder of all runs.")] = Path("runs"),
    archive: Annotated[Path | None, typer.Option(help="Archive (.tar.gz) for results and small checkpoints.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Time limit; the next call resumes.")] = None,
    parallel: Annotated[int, typer.Option(help="Number of cells trained in parallel, one process each.", min=1)] = 1,
    only: Annotated[str, typer.Option(help="Comma-separated prefixes of experiment names.")] = "",
    change: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every cell.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
) -> None:
    """Train the cells that lack results, in the order of the queue, until the time limit.

    Cells whose data are not in the folder are left out. A seed has a result if one is committed in results/ for the
    same data, or present in the runs folder. An interrupted cell resumes from its checkpoint. The archive is updated
    whenever a seed finishes: unpack it in the checkout, then run python -m reproduce results --collect runs.
    """
    console = make_console()
    cells = unfinished(data, runs, [prefix for prefix in only.split(",") if prefix], change or [])
    echo(console, f"unfinished: {', '.join(cell.name for cell in cells) or 'none'}")
    if minutes is not None:
        signal.signal(signal.SIGALRM, signal.default_int_handler)  # as Ctrl-C: checkpoints are saved
        signal.setitimer(signal.ITIMER_REAL, 60 * minutes)
    with Archive(runs, archive):
        code = run_cells(console, cells, runs, device, curves=False, parallel=min(parallel, len(cells) or 1))
    if code:
        raise typer.Exit(code)


def unfinished(data: str, runs: Path, only: list[str], changes: list[str]) -> list[Experiment]:
    """The cells that lack a result for some seed and whose data are there, in training order."""
    names = [cell.name for table, dataset in QUEUE for cell in choose(table, [dataset])]
    chosen = [name for name in names if not only or name.startswith(tuple(only))]
    cells = [load_experiment(name, [f"data.path={data}", *changes]) for name in chosen]
    notes = read_notes({cell.data.dataset for cell in cells}, data)
    committed = read_results(RESULTS)

    def has_results(cell: Experiment) -> bool:
        present = {run.seed for run in committed.get(cell.name, ()) if run.data == notes[cell.data.dataset]}
        return set(cell.training.seeds) <= present or is_finished(cell, runs)

    return [cell for cell in cells if cell.data.dataset in notes and not has_results(cell)]


def read_notes(datasets: set[str], data: str) -> dict[str, str]:
    """What is said of the data of each dataset in the folder; those that are not there are left out."""
    notes = {}
    for dataset in sorted(datasets):
        with suppress(FileNotFoundError):
            notes[dataset] = load_benchmark(dataset, data).note
    return notes


class Archive:
    """Context manager that keeps an archive of the results below a folder up to date."""

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
        while not self.ended.wait(POLL_SECONDS):
            files = [path for name in (RESULT, CHECKPOINT) for path in sorted(self.runs.rglob(f"seed-*/{name}"))]
            present = [(path, path.stat().st_mtime) for path in files]
            if present != packed:
                pack(self.runs, self.file, limit=0)  # without checkpoints, which are being written
                packed = present


def pack(runs: Path, file: Path, limit: int = LARGEST_ARCHIVE) -> None:
    """Write results, settings and metrics, then checkpoints of unfinished seeds, smallest first, up to ``limit``."""
    results = [path for name in (RESULT, METRICS, EXPERIMENT) for path in sorted(runs.rglob(name))]
    checkpoints = [path for path in runs.rglob(f"seed-*/{CHECKPOINT}") if not path.with_name(RESULT).exists()]
    with atomic_file(file) as partial, tarfile.open(partial, "w:gz") as archive:
        for path in results:
            archive.add(path, path.relative_to(runs.parent))
        for path in sorted(checkpoints):
            add_text(archive, path.with_name(METRICS).relative_to(runs.parent), to_csv(read_epochs(path)))
        for path in sorted(checkpoints, key=lambda path: path.stat().st_size):
            if archive.offset + path.stat().st_size <= limit:
                archive.add(path, path.relative_to(runs.parent))


def read_epochs(checkpoint: Path) -> list[dict[str, float]]:
    """The metrics of all epochs of a checkpoint; its tensors are not read."""
    with safe_open(checkpoint, framework="pt") as file:
        history: list[dict[str, float]] = json.loads(file.metadata()["state"])["history"]
    return history


def add_text(archive: tarfile.TarFile, path: Path, text: str) -> None:
    """Add a text file to an archive without writing it to disk."""
    info, data = tarfile.TarInfo(path.as_posix()), text.encode()
    info.size = len(data)
    archive.addfile(info, io.BytesIO(data))
