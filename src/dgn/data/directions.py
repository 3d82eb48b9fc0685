"""Directions of every graph of a dataset: cut into chunks, solved side by side, cached."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from dgn.data.cache import Cache, chunk_key
from dgn.data.chunks import ChunkDirections, Request, cut, solve, take
from dgn.data.local import Job, solve_locally
from dgn.data.packed import PackedGraphs
from dgn.data.progress import progress_bar
from dgn.data.summary import Summary, summarize, warn_of_failures
from dgn.graph.checks import check_option
from dgn.spectral.directions import check_request
from dgn.spectral.laplacian import Normalization

Engine = Literal["local", "ray"]
ENGINES = ("local", "ray")
LARGE = 2**12  # nodes of one graph from which the solver has use for several threads


@dataclass(frozen=True)
class Options:
    """How the work is done; nothing here changes the result.

    ``cache`` is a folder for solved chunks; ``workers`` the number of threads (``"local"``, by default as many as
    PyTorch uses) or of chunks in flight (``"ray"``); ``address`` that of a running Ray cluster.
    """

    cache: Path | None = None
    workers: int | None = None
    engine: Engine = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        check_option("engine", self.engine, ENGINES)
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"workers: expected 1 or more, got {self.workers}; leave it out for one per core")


def add_directions(
    graphs: PackedGraphs,
    k: int = 2,
    normalization: Normalization = None,
    edge_weight: str | None = None,
    cache: str | Path | None = None,
    workers: int | None = None,
    engine: Engine = "local",
    address: str | None = None,
    progress: bool = False,
) -> PackedGraphs:
    """Add the directions of every graph: :func:`dgn.directions` for a whole dataset.

    Adds ``nodes["potential"]`` [N, k] and ``edges["field"]`` [E, k], float32 and computed in float64;
    ``nodes["component"]`` [N], the number of the connected component within its graph; ``nodes["repeated"]`` [N, k],
    whether the eigenvalue of that direction occurs more than once in the node's component. ``edge_weight`` names the
    edge values that are weights of the Laplacian; by default those called ``edge_weight``, if there are any.

    With a folder as ``cache``, every chunk of about a thousand graphs is kept there as soon as it is solved, under a
    key that holds the arguments, the code of the solver and the graphs: a run that was killed goes on where it was.
    ``engine="ray"`` solves the chunks on a Ray cluster, that at ``address`` or a local one.

    Laws: the same bytes for any number of workers, with either engine, from the cache or not. A graph that cannot be
    solved gets zeros and is named in a warning; the others are not affected.

    >>> two = PackedGraphs.pack([(torch.tensor([[0, 1], [1, 0]]), 2), (torch.tensor([[0, 1], [1, 2]]), 4)])
    >>> added = add_directions(two, k=1)
    >>> added.nodes["component"].tolist(), added.edges["field"].shape
    ([0, 0, 0, 0, 0, 1], torch.Size([4, 1]))
    """
    request = make_request(k, normalization, edge_weight, graphs.edges)
    options = Options(None if cache is None else Path(cache), workers, engine, address)
    with progress_bar("directions", len(graphs), show=progress) as advance:
        found, summary = find_directions(graphs, request, options, advance)
    warn_of_failures(summary)
    return with_directions(graphs, found)


def make_request(k: int, normalization: Normalization, edge_weight: str | None, edges: Mapping[str, object]) -> Request:
    """A checked request; weights called ``edge_weight`` are used wherever there are any."""
    check_request(k, normalization)
    if edge_weight is not None:
        check_option("edge_weight", edge_weight, tuple(edges))
    elif "edge_weight" in edges:
        edge_weight = "edge_weight"
    return Request(k, normalization, edge_weight)


def find_directions(
    graphs: PackedGraphs, request: Request, options: Options, advance: Callable[[int], None] = lambda _: None
) -> tuple[ChunkDirections, Summary]:
    """The directions of all graphs, and what was done for them; ``advance`` is told how many more graphs are done."""
    began = time.perf_counter()
    bounds = cut(graphs.node_pointer)
    store = None if options.cache is None else Cache(options.cache)
    parts: dict[int, ChunkDirections] = {}
    keys: dict[int, str] = {}
    for number, (begin, end) in enumerate(bounds):
        if store is not None:
            keys[number] = chunk_key(take(graphs, begin, end, request.edge_weight), request)
            known = store.read(keys[number])
            if known is not None:
                parts[number] = known
                advance(end - begin)
    cached = len(parts)
    jobs: list[Job] = [
        (number, partial(take, graphs, *bound, request.edge_weight))
        for number, bound in enumerate(bounds)
        if number not in parts
    ]
    for number, found in _run(jobs, request, options, graphs.node_pointer):
        parts[number] = found
        if store is not None:
            store.write(keys[number], found)
        advance(bounds[number][1] - bounds[number][0])
    whole = [parts[number] for number in range(len(bounds))] or [solve(graphs, request)]
    joined = ChunkDirections.join(whole)
    return joined, summarize(joined, len(bounds), cached, time.perf_counter() - began)


def _run(
    jobs: list[Job], request: Request, options: Options, node_pointer: Tensor
) -> Iterator[tuple[int, ChunkDirections]]:
    if not jobs:
        return iter(())
    if options.engine == "ray":
        from dgn.data.ray_cluster import solve_on_ray

        return solve_on_ray(jobs, request, options.workers, options.address)
    workers = options.workers or torch.get_num_threads()
    large = bool((node_pointer.diff() >= LARGE).any())
    return solve_locally(jobs, request, workers, max(1, workers // len(jobs)) if large else 1)


def with_directions(graphs: PackedGraphs, found: ChunkDirections) -> PackedGraphs:
    """The graphs with the values that :func:`add_directions` adds."""
    first = found.components.cumsum(0) - found.components
    number = first.repeat_interleave(graphs.node_pointer.diff()) + found.component
    small = not len(found.component) or int(found.component.max()) < 2**15
    nodes = {
        "potential": found.potential,
        "component": found.component.short() if small else found.component,
        "repeated": found.repeated[number],
    }
    return graphs.with_values(nodes=nodes, edges={"field": found.field})
