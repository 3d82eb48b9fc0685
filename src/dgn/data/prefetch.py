"""Ordered results of chunks processed by a process pool, a few chunks ahead of the consumer."""

import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from threading import Thread
from typing import TypeVar

import torch

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")


def prefetch(work: Callable[[Chunk], Result], chunks: Iterable[Chunk], workers: int) -> Iterator[Result]:
    """Yield ``work(chunk)`` of each chunk in order; at most ``workers`` + 2 chunks are in flight.

    Arguments and results are pickled: use arrays rather than tensors, which would need shared memory and open files.
    Processes are spawned: a script must call this under ``if __name__ == "__main__":``.
    """
    with ExitStack() as stack:
        pool = stack.enter_context(ProcessPoolExecutor(workers, get_context("spawn"), _start_worker))
        stack.callback(pool.shutdown, cancel_futures=True)
        running: deque[Future[Result]] = deque()
        for chunk in chunks:
            running.append(pool.submit(work, chunk))
            if len(running) > workers + 1:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _start_worker() -> None:
    """One thread, an interrupt left to the main process, and an exit when that process ends, however it ends."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None
    Thread(target=lambda: (wait([parent.sentinel]), os._exit(1)), daemon=True).start()
