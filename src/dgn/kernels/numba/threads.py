"""Threads for compiled kernels that release the interpreter lock."""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib.util import find_spec
from itertools import pairwise
from threading import Lock
from typing import Any

import torch

PIECES = 2  # per thread

_KERNEL_THREADS: ContextVar[int | None] = ContextVar("kernel threads", default=None)


def for_chunks(work: Callable[[int, int], object], total: int, smallest: int) -> None:
    """KernelArgs ``work(begin, end)`` on consecutive pieces of ``range(total)``, in as many threads as PyTorch uses.

    A piece has at least ``smallest`` items. Pieces must not depend on each other; there are a few per thread, taken as
    threads come free, so that uneven ones even out. The calling thread works too. Pieces of a piece are done in its own
    thread. Our own threads instead of an OpenMP
    team: a second team beside PyTorch's would spin against it for the same cores.
    """
    threads = _KERNEL_THREADS.get() or torch.get_num_threads()
    pieces = min(PIECES * threads, total // max(smallest, 1))
    if threads == 1 or pieces <= 1:
        work(0, total)
        return
    bounds = (piece * total // pieces for piece in range(pieces + 1))
    left = iter([*pairwise(bounds)])  # of a list: threads cannot meet inside a step of it

    def run() -> None:
        token = _KERNEL_THREADS.set(1)
        try:
            for begin, end in left:
                work(begin, end)
        finally:
            _KERNEL_THREADS.reset(token)

    pool = _pool(os.getpid(), threads - 1)
    others = [pool.submit(run) for _ in range(min(threads, pieces) - 1)]
    try:
        run()
    finally:
        wait(others)
    for done in others:
        done.result()


@contextmanager
def kernels_alone() -> Iterator[None]:
    """While it lasts, PyTorch's own operations take one thread, and kernels here all that it had.

    Where the kernels do nearly all of the work, what is left is small, and waking a second thread for it takes longer
    than doing it.
    """
    threads = torch.get_num_threads()
    if threads == 1:
        yield
        return
    token = _KERNEL_THREADS.set(threads)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        _KERNEL_THREADS.reset(token)


class OneBlasThread(AbstractContextManager[None]):
    """While it lasts, NumPy and SciPy multiply and solve on one thread; threads may enter it at the same time.

    On blocks of a few columns a team of threads gains nothing, and where cores are shared its members spin for each
    other: 20 times as much processor time was seen.
    """

    def __init__(self) -> None:
        from threadpoolctl import ThreadpoolController

        self._libraries, self._lock, self._inside = ThreadpoolController(), Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._limit = self._libraries.limit(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._limit.restore_original_limits()


@cache
def one_blas_thread() -> AbstractContextManager[None]:
    """The one of this process; without threadpoolctl, the extra ``cpu``, threads stay as they are."""
    return nullcontext() if find_spec("threadpoolctl") is None else OneBlasThread()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="dgn")
