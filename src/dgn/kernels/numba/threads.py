"""Threads for compiled kernels that release the GIL."""

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

CHUNKS = 2  # per thread

_KERNEL_THREADS: ContextVar[int | None] = ContextVar("kernel threads", default=None)


def for_chunks(work: Callable[[int, int], object], total: int, smallest: int) -> None:
    """Call ``work(begin, end)`` on consecutive chunks of ``range(total)``, in as many threads as PyTorch uses.

    A chunk has at least ``smallest`` items. Chunks must be independent; there are a few per thread, for load balance.
    The calling thread works too, and a nested call runs in its own thread. The pool is not an OpenMP team, which would
    spin against PyTorch's for the same cores.
    """
    threads = _KERNEL_THREADS.get() or torch.get_num_threads()
    chunks = min(CHUNKS * threads, total // max(smallest, 1))
    if threads == 1 or chunks <= 1:
        work(0, total)
        return
    bounds = (chunk * total // chunks for chunk in range(chunks + 1))
    remaining = iter([*pairwise(bounds)])  # of a list, whose iterator is thread-safe

    def run() -> None:
        token = _KERNEL_THREADS.set(1)
        try:
            for begin, end in remaining:
                work(begin, end)
        finally:
            _KERNEL_THREADS.reset(token)

    pool = _pool(os.getpid(), threads - 1)
    others = [pool.submit(run) for _ in range(min(threads, chunks) - 1)]
    try:
        run()
    finally:
        wait(others)
    for future in others:
        future.result()


@contextmanager
def single_threaded_torch() -> Iterator[None]:
    """Context in which PyTorch's operators use one thread and the Numba kernels all that it had.

    Where the kernels do nearly all of the work, the remaining operators are so small that waking a second thread takes
    longer than running them.
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
    """Context in which BLAS uses one thread; several threads may enter it at the same time.

    On blocks of a few columns more threads gain nothing, and on shared cores they spin: up to 20 times as much CPU time
    was measured.
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
    """The context of this process; does nothing without threadpoolctl, of the extra ``cpu``."""
    return nullcontext() if find_spec("threadpoolctl") is None else OneBlasThread()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="dgn")
