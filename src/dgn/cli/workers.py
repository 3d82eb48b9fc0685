"""Processes that train one experiment after the other, beside others that do the same.

Several processes on one GPU keep it busy where one network is too small to.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import typer
from rich.console import Console

from dgn.cli.running import STOPPED

if TYPE_CHECKING:
    from dgn.data.benchmarks import Benchmark
    from dgn.training.experiment import Experiment
    from dgn.training.settings import DataSettings

OUTPUT = "output.txt"  # what a run would have printed if it were alone


@contextmanager
def workers(console: Console, folder: Path, processes: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that share the threads of this one, and end with it, whatever ends it."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    with ProcessPoolExecutor(processes, context, _prepare, (ours, processes)) as pool:
        try:
            yield pool
        except BaseException as reason:
            theirs.close()  # before the pool waits for what is under way
            if isinstance(reason, KeyboardInterrupt):
                console.print(f"Stopped. The same command goes on in {folder}.", soft_wrap=True)
                raise typer.Exit(STOPPED) from None
            raise


def _prepare(life_line: Connection, processes: int) -> None:
    """Begin the life of a process: its share of the threads, and an end when the other side of the pipe is closed."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process hears it and lets go of the pipe
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))

    def live() -> None:
        try:
            life_line.recv()
        except EOFError:
            os._exit(0)

    Thread(target=live, daemon=True).start()


@contextmanager
def output(folder: Path) -> Iterator[Console]:
    """What a run prints while others train: appended to a file of its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / OUTPUT).open("a", encoding="utf-8") as file:
        yield Console(file=file)


class Graphs:
    """The graphs of the last experiment, loaded again only when the next needs others or more directions."""

    def __init__(self, progress: bool = True) -> None:
        self.progress = progress
        self.benchmark: Benchmark | None = None
        self.directions = 0
        self.data: DataSettings | None = None

    def __call__(self, experiment: "Experiment") -> "Benchmark":
        from dgn.training.load import any_directions, load_graphs

        data = any_directions(experiment.data)
        if self.benchmark is None or data != self.data or self.directions < experiment.num_directions:
            self.benchmark = load_graphs(experiment, self.progress)
            self.directions, self.data = experiment.num_directions, data
        return self.benchmark


@cache
def own_graphs() -> Graphs:
    """Those of this process."""
    return Graphs(progress=False)
