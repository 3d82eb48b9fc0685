"""A pool of worker processes, each training one experiment at a time.

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

from dgn.cli.display import echo
from dgn.cli.errors import STOPPED

OUTPUT = "output.txt"  # what the run of a worker prints

T = TypeVar("T")


class Workers:
    """Worker processes, each in its own single-process executor, so that one that dies breaks no other.

    A process that died or raised is replaced: its CUDA context may be lost.
    """

    def __init__(self, processes: int, make_executor: Callable[[], ProcessPoolExecutor]) -> None:
        self.make_executor, self.threads = (
            make_executor,
            ThreadPoolExecutor(processes),
        )  # one thread waits for each process
        self.free = SimpleQueue[ProcessPoolExecutor]()
        for _ in range(processes):
            self.free.put(make_executor())

    def submit(self, work: Callable[..., T], *args: Any) -> Future[T]:
        """The future of ``work(*args)``, run as soon as a process is free."""
        return self.threads.submit(self._run, work, *args)

    def _run(self, work: Callable[..., T], *args: Any) -> T:
        process = self.free.get()
        try:
            try:
                future = process.submit(work, *args)
            except BrokenProcessPool:  # it died while idle
                process = self.make_executor()
                future = process.submit(work, *args)
            return future.result()
        except BaseException as problem:
            process.shutdown(wait=False)
            process = self.make_executor()
            if isinstance(problem, BrokenProcessPool):
                raise RuntimeError(
                    "process: expected a result, got its death while running, possibly out of memory; "
                    f"see {OUTPUT} for its progress"
                ) from problem
            raise
        finally:
            self.free.put(process)

    def end(self) -> None:
        """Wait for running work and cancel the rest."""
        self.threads.shutdown(cancel_futures=True)
        while not self.free.empty():
            self.free.get().shutdown()


@contextmanager
def workers(console: Console, folder: Path, processes: int) -> Iterator[Workers]:
    """Worker processes that share the threads of this process and end with it, however it ends."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    pool = Workers(processes, lambda: ProcessPoolExecutor(1, context, _start_worker, (receiver, processes)))
    try:
        yield pool
    except BaseException as reason:
        pool.threads.shutdown(wait=False, cancel_futures=True)
        sender.close()  # ends the workers, before the pool waits for them
        if isinstance(reason, KeyboardInterrupt):
            echo(console, f"Stopped. The same command resumes in {folder}.")
            raise typer.Exit(STOPPED) from None
        raise
    finally:
        pool.end()


def _start_worker(receiver: Connection, processes: int) -> None:
    """Set up a worker: its share of the threads, and an exit when the sending end of the pipe is closed."""
    import torch

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)  # the main process handles it and closes the pipe
    torch.set_num_threads(max(1, torch.get_num_threads() // processes))

    def exit_with_parent() -> None:
        try:
            receiver.recv()
        except EOFError:
            os._exit(0)

    Thread(target=exit_with_parent, daemon=True).start()


@contextmanager
def output(folder: Path) -> Iterator[Console]:
    """A console that appends to ``output.txt`` in the folder of the run."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / OUTPUT).open("a", encoding="utf-8") as file:
        yield Console(file=file)
