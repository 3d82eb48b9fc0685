"""Chunks solved by threads of this process."""

from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice

import torch

from dgn.data.chunks import ChunkDirections, Request, solve
from dgn.data.packed import PackedGraphs

Job = tuple[int, Callable[[], PackedGraphs]]  # the chunk's number, and its graphs when they are needed


def solve_locally(
    jobs: list[Job], request: Request, workers: int, threads: int = 1
) -> Iterator[tuple[int, ChunkDirections]]:
    """Yield the number and the directions of each chunk as it is done.

    Each worker is one thread that solves one chunk at a time; within a chunk, the solver may use ``threads``.
    """
    waiting = iter(jobs)
    with _torch_threads(threads), ThreadPoolExecutor(workers) as pool:
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
def _torch_threads(count: int) -> Iterator[None]:
    """Fewer PyTorch threads for a while: those of one worker would only disturb the others."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
