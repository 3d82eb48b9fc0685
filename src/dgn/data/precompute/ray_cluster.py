"""Directions of chunks, computed on a Ray cluster."""

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

RETRIES = 20  # per chunk, after its worker or node has died


def solve_on_ray(
    jobs: list[Job], request: Request, workers: int | None = None, address: str | None = None
) -> Iterator[tuple[int, ChunkDirections]]:
    """Yield the index and the directions of each chunk in order of completion.

    Equal to :func:`dgn.data.precompute.local.solve_locally`. A chunk is a Ray task of one CPU, which Ray retries
    elsewhere when its worker or node dies. Results return to this process: workers need ``dgn`` but no shared disk.
    ``workers`` limits the chunks in flight; for ``address`` see :func:`ray_session`.
    """
    with ray_session(address) as ray:
        task = ray.remote(num_cpus=1, max_retries=RETRIES)(_solve)
        cpus = int(ray.cluster_resources().get("CPU", 1))
        in_flight = workers if workers is not None else 2 * cpus
        queue = iter(jobs)
        running: dict[Any, int] = {}
        while True:
            for index, graphs in islice(queue, in_flight - len(running)):
                running[task.remote(_copy_chunk(graphs()), request)] = index
            if not running:
                return
            done, _ = ray.wait(list(running), num_returns=1)
            for reference in done:
                # Copied out of Ray's shared memory, which ends with the session.
                tensors, failures = ray.get(reference)
                copies = {name: tensor.clone() for name, tensor in tensors.items()}
                yield running.pop(reference), ChunkDirections.of(copies, failures)


def _copy_chunk(graphs: PackedGraphs) -> PackedGraphs:
    """A copy of a chunk: pickling a view sends its whole storage."""
    weights = {name: value.clone() for name, value in graphs.edges.items()}
    return replace(graphs, edge_index=graphs.edge_index.clone(), edges=weights)


def _solve(graphs: PackedGraphs, request: Request) -> tuple[dict[str, torch.Tensor], dict[int, str]]:
    torch.set_num_threads(1)
    directions = solve(graphs, request)
    return directions.tensors(), dict(directions.failures)


def _import_ray() -> Any:
    check_package("engine='ray'", "ray")
    import ray

    return ray


@contextmanager
def ray_session(address: str | None = None) -> Iterator[Any]:
    """The ``ray`` module with a session: the current one of this process, or a new one that ends with the block.

    ``address`` is that of a running cluster, by default the environment variable ``RAY_ADDRESS``; without either, a
    local cluster is started.
    """
    ray = _import_ray()
    is_new = not ray.is_initialized()
    if is_new:
        address = address or os.environ.get("RAY_ADDRESS", "local")
        ray.init(address, log_to_driver=False, **({"include_dashboard": False} if address == "local" else {}))
    try:
        yield ray
    finally:
        if is_new:
            ray.shutdown()
