"""Processes that train one experiment after the other, beside others that do the same.

Several processes on one GPU keep it busy where one network is too small to.
"""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

import typer
from rich.console import Console

from dgn.cli.display import say
from dgn.cli.run_seeds import STOPPED

OUTPUT = "output.txt"  # what a run would have printed if it were alone


T = TypeVar("T")


class Workers:
    """So many processes, each alone in what ``fresh`` makes, so that one that dies takes no other with it.

    A process that died, or that an error escaped from, is replaced: its device may be lost to it.
    """

    def __init__(self, processes: int, fresh: Callable[[], ProcessPoolExecutor]) -> None:
        self.fresh, self.threads = fresh, ThreadPoolExecutor(processes)  # a thread waits for each
        self.free = SimpleQueue[ProcessPoolExecutor]()
        for _ in range(processes):
            self.free.put(fresh())

    def submit(self, work: Callable[..., T], *given: Any) -> Future[T]:
        """The result of ``work``, once a process is free for it."""
        return self.threads.submit(self._run, work, *given)

    def _run(self, work: Callable[..., T], *given: Any) -> T:
        process = self.free.get()
        try:
            try:
                under_way = process.submit(work, *given)
            except BrokenProcessPool:  # it died before, while it had nothing to do
                process = self.fresh()
                under_way = process.submit(work, *given)
            return under_way.result()
        except BaseException as problem:
            process.shutdown(wait=False)
            process = self.fresh()
            if isinstance(problem, BrokenProcessPool):
                raise RuntimeError(
                    "process: expected it to live, got its end in the middle of the work, as where memory runs out; "
                    f"{OUTPUT} shows how far it came"
                ) from problem
            raise
        finally:
            self.free.put(process)

    def end(self) -> None:
        """Wait for what is under way; what has not begun does not begin."""
        self.threads.shutdown(cancel_futures=True)
        while not self.free.empty():
            self.free.get().shutdown()


@contextmanager
def workers(console: Console, folder: Path, processes: int) -> Iterator[Workers]:
    """Processes that share the threads of this one, and end with it, whatever ends it."""
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    pool = Workers(processes, lambda: ProcessPoolExecutor(1, context, _prepare, (ours, processes)))
    try:
        yield pool
    except BaseException as reason:
        pool.threads.shutdown(wait=False, cancel_futures=True)
        theirs.close()  # before the pool waits for what is under way
        if isinstance(reason, KeyboardInterrupt):
            say(console, f"Stopped. The same command goes on in {folder}.")
            raise typer.Exit(STOPPED) from None
        raise
    finally:
        pool.end()


def _prepare(life_line: Connection, processes: int) -> None:
    """Begin the life of a process: its share of the threads, and an end when the other side of the pipe is closed."""
    import torch

    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)  # the first process hears it and lets go of the pipe
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
