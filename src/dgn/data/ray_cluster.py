"""Chunks solved by the workers of a Ray cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch

from dgn.data.chunks import ChunkDirections, Request, solve
from dgn.data.local import Job
from dgn.data.packed import PackedGraphs

RETRIES = 20  # of one chunk, each after the death of its worker or node


def solve_on_ray(
    jobs: list[Job], request: Request, workers: int | None = None, address: str | None = None
) -> Iterator[tuple[int, ChunkDirections]]:
    """Yield the number and the directions of each chunk as it is done, like :func:`dgn.data.local.solve_locally`.

    A chunk is a Ray task of one CPU; Ray starts it again elsewhere when its worker or node dies. Results come back
    to this process, so that workers need no shared disk, only ``dgn`` installed. ``address`` is that of a running
    cluster; without one, the Ray session of this process is used, or a local one is started for the time being.
    ``workers`` bounds the chunks in flight.
    """
    ray = _import_ray()
    with _session(ray, address):
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(_solve)
        cpus = int(ray.cluster_resources().get("CPU", 1))
        most = workers if workers is not None else 2 * cpus
        waiting = iter(jobs)
        running: dict[Any, int] = {}
        while True:
            for number, graphs in islice(waiting, most - len(running)):
                running[task.remote(graphs(), request)] = number
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            for each in done:
                # Copied out of Ray's shared memory, which ends with the session.
                tensors, failures = ray.get(each)
                yield (
                    running.pop(each),
                    ChunkDirections.of({name: value.clone() for name, value in tensors.items()}, failures),
                )


def _solve(graphs: PackedGraphs, request: Request) -> tuple[dict[str, torch.Tensor], dict[int, str]]:
    torch.set_num_threads(1)
    found = solve(graphs, request)
    return found.tensors(), dict(found.failures)


def _import_ray() -> Any:
    try:
        import ray
    except ImportError as problem:
        raise ImportError(
            'engine: expected Ray for engine="ray", got no such package; install it with '
            'pip install "dgn[ray]", or use engine="local"'
        ) from problem
    return ray


@contextmanager
def _session(ray: Any, address: str | None) -> Iterator[None]:
    """A Ray session: the one at hand, or one that ends when it is no longer needed."""
    ours = not ray.is_initialized()
    if ours:
        ray.init(address=address or "local", log_to_driver=False, include_dashboard=False if address is None else None)
    try:
        yield
    finally:
        if ours:
            ray.shutdown()
