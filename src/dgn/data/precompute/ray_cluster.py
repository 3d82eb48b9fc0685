"""Chunks solved by the workers of a Ray cluster."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from dgn.data.packed import PackedGraphs
from dgn.data.precompute.chunks import ChunkDirections, Request, solve
from dgn.data.precompute.local import Job
from dgn.graph.checks import check_package

RETRIES = 20  # of one chunk, each after the death of its worker or node


def solve_on_ray(
    jobs: list[Job], request: Request, workers: int | None = None, address: str | None = None
) -> Iterator[tuple[int, ChunkDirections]]:
    """Yield the number and the directions of each chunk as it is done.

    Does what :func:`dgn.data.precompute.local.solve_locally` does.

    A chunk is a Ray task of one CPU; Ray starts it again elsewhere when its worker or node dies. Results come back
    to this process, so that workers need no shared disk, only ``dgn`` installed. ``workers`` bounds the chunks in
    flight; for ``address`` see :func:`ray_session`.
    """
    with ray_session(address) as ray:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(_solve)
        cpus = int(ray.cluster_resources().get("CPU", 1))
        most = workers if workers is not None else 2 * cpus
        waiting = iter(jobs)
        running: dict[Any, int] = {}
        while True:
            for number, graphs in islice(waiting, most - len(running)):
                running[task.remote(_alone(graphs()), request)] = number
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


def _alone(graphs: PackedGraphs) -> PackedGraphs:
    """A chunk in memory of its own: sending part of an array sends all of it."""
    weights = {name: value.clone() for name, value in graphs.edges.items()}
    return replace(graphs, edge_index=graphs.edge_index.clone(), edges=weights)


def _solve(graphs: PackedGraphs, request: Request) -> tuple[dict[str, torch.Tensor], dict[int, str]]:
    torch.set_num_threads(1)
    found = solve(graphs, request)
    return found.tensors(), dict(found.failures)


def _import_ray() -> Any:
    check_package("engine='ray'", "ray")
    import ray

    return ray


@contextmanager
def ray_session(address: str | None = None) -> Iterator[Any]:
    """Ray with a session: that of this process if there is one, else one that ends with the block.

    ``address`` is that of a running cluster, by default the one in the environment variable ``RAY_ADDRESS``; without
    either, a cluster is started on this machine.
    """
    ray = _import_ray()
    ours = not ray.is_initialized()
    if ours:
        address = address or os.environ.get("RAY_ADDRESS", "local")
        ray.init(address, log_to_driver=False, **({"include_dashboard": False} if address == "local" else {}))
    try:
        yield ray
    finally:
        if ours:
            ray.shutdown()
