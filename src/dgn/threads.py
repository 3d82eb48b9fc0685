"""Threads for compiled kernels that release the interpreter lock."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise

import torch


def for_chunks(work: Callable[[int, int], object], total: int, smallest: int) -> None:
    """Call ``work(begin, end)`` on consecutive pieces of ``range(total)``, in as many threads as PyTorch uses.

    A piece has at least ``smallest`` items. Pieces must not depend on each other; there are a few per thread, so that
    uneven ones even out. Our own threads instead of an OpenMP team: a second team beside PyTorch's would spin against
    it for the same cores.
    """
    threads = torch.get_num_threads()
    pieces = min(4 * threads, total // max(smallest, 1))
    if threads == 1 or pieces <= 1:
        work(0, total)
        return
    bounds = [piece * total // pieces for piece in range(pieces + 1)]
    pool = _pool(os.getpid(), threads)
    for done in [pool.submit(work, begin, end) for begin, end in pairwise(bounds)]:
        done.result()


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:  # noqa: ARG001 -- a forked process needs its own
    return ThreadPoolExecutor(threads, thread_name_prefix="dgn")
