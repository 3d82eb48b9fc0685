"""Chunks solved by threads of this process."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice

import torch

from dgn.data.packed import PackedGraphs
from dgn.data.precompute.chunks import ChunkDirections, Request, solve

LARGE = 2**12  # nodes of a graph from which its solver has use for several threads
Job = tuple[int, Callable[[], PackedGraphs]]  # the chunk's number, and its graphs when they are needed


def solve_locally(jobs: list[Job], request: Request, workers: int) -> Iterator[tuple[int, ChunkDirections]]:
    """Yield the number and the directions of each chunk as it is done.

    Each worker is one thread that solves one chunk at a time. Where there are more workers than chunks, and graphs
    large enough, the solver gets the other threads.
    """
    waiting = iter(jobs)
    spare = workers // max(len(jobs), 1)
    large = spare > 1 and any(bool((graphs().node_pointer.diff() >= LARGE).any()) for _, graphs in jobs)
    with torch_threads(spare if large else 1), ThreadPoolExecutor(workers) as pool:
        running: dict[Future[ChunkDirections], int] = {}
        try:
            while True:
                for number, graphs in islice(waiting, 2 * workers - len(running)):
                    running[pool.submit(_solve, graphs, request)] = number
                if not running:
                    return
                for done in wait(running, return_when=FIRST_COMPLETED).done:
                    yield running.pop(done), done.result()
        finally:
            pool.shutdown(cancel_futures=True)


def _solve(graphs: Callable[[], PackedGraphs], request: Request) -> ChunkDirections:
    return solve(graphs(), request)


@contextmanager
def torch_threads(count: int) -> Iterator[None]:
    """Another number of PyTorch threads for a while.

    One, as a rule: on arrays of the size of a chunk a team of threads gains nothing, waits for its members where
    cores are shared (40 times slower was seen), and disturbs the other workers.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
