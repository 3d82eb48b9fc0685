"""Processes that train one experiment after the other, beside others that do the same.

Several processes on one GPU keep it busy where one network is too small to.
"""

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread

import typer
from rich.console import Console

from dgn.cli.running import STOPPED

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
