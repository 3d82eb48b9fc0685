"""Directions of chunks, computed by threads of this process."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice

import torch

from dgn.data.packed import PackedGraphs
from dgn.data.precompute.chunks import ChunkDirections, Request, solve

LARGE = 2**12  # nodes from which the solver of one graph benefits from several threads
Job = tuple[int, Callable[[], PackedGraphs]]  # the index of the chunk, and a function that returns its graphs


def solve_locally(jobs: list[Job], request: Request, workers: int) -> Iterator[tuple[int, ChunkDirections]]:
    """Yield the index and the directions of each chunk in order of completion.

    Each worker is one thread that solves one chunk at a time. With more workers than chunks and large graphs, the
    solver itself uses the remaining threads.
    """
    queue = iter(jobs)
    threads_per_job = workers // max(len(jobs), 1)
    large = threads_per_job > 1 and any(bool((graphs().node_pointer.diff() >= LARGE).any()) for _, graphs in jobs)
    pool = ThreadPoolExecutor(workers)
    with torch_threads(threads_per_job if large else 1):
        running: dict[Future[ChunkDirections], int] = {}
        try:
            while True:
                for index, graphs in islice(queue, 2 * workers - len(running)):
                    running[pool.submit(_solve, graphs, request)] = index
                if not running:
                    return
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # after an interrupt, what still runs is not waited for


def _solve(graphs: Callable[[], PackedGraphs], request: Request) -> ChunkDirections:
    return solve(graphs(), request)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Set the number of PyTorch threads within a block.

    Usually one: on arrays of the size of a chunk, intra-op threads gain nothing, are up to 40 times slower on shared
    cores, and compete with the other workers.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
