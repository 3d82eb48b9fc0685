"""Directions of every graph of a dataset, computed in parallel by chunks and cached."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from dgn.data.packed import PackedGraphs
from dgn.data.precompute.cache import Cache, CacheFormat
from dgn.data.precompute.chunks import ChunkDirections, Request, cut, solve, take
from dgn.data.precompute.local import Job, solve_locally, torch_threads
from dgn.data.precompute.progress import progress_bar
from dgn.data.precompute.summary import Summary, summarize, warn_of_failures
from dgn.graph.checks import check_option
from dgn.spectral.laplacians import Normalization, check_request

Engine = Literal["local", "ray"]
ENGINES = ("local", "ray")
CACHE_FORMAT = CacheFormat("dgn directions 2", ("spectral", "graph", "fields", "kernels"))


@dataclass(frozen=True)
class Options:
    """Parallelism and caching; none of these options changes the result.

    ``cache`` is a folder for solved chunks; ``workers`` the number of threads (``"local"``, by default as many as
    PyTorch uses) or of chunks in flight (``"ray"``); ``address`` the address of a running Ray cluster.
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
    arcsine: bool = False,
) -> PackedGraphs:
    """The graphs with the directions of each: :func:`dgn.directions` for a dataset.

    Adds ``nodes["node_potential"]`` [N, k] and ``edges["edge_field"]`` [E, k], float32 and computed in float64;
    ``nodes["component"]`` [N], the index of the connected component within its graph; ``nodes["repeated"]`` [N, k],
    whether the eigenvalue of that direction is repeated in the node's component; ``nodes["gap"]`` [N, k] float32, its
    relative gap to the next eigenvalue there. ``edge_weight`` names the edge tensor with the weights of the
    Laplacian; the default is ``edges["edge_weight"]``, if present. With ``arcsine`` potentials are their
    :func:`dgn.arcsine`.

    With a folder as ``cache``, each chunk of about a thousand graphs is written there once it is solved, under a key
    of the arguments, the solver's code and the graphs: a killed run resumes with the missing chunks.
    ``engine="ray"`` solves the chunks on a Ray cluster, the one at ``address`` or a local one.

    Laws: bitwise identical for any number of workers, with either engine, cached or not. A graph that cannot be
    solved gets zeros and is named in a warning; the others are unaffected.

    >>> two = PackedGraphs.pack([(torch.tensor([[0, 1], [1, 0]]), 2), (torch.tensor([[0, 1], [1, 2]]), 4)])
    >>> added = add_directions(two, k=1)
    >>> added.nodes["component"].tolist(), added.edges["edge_field"].shape
    ([0, 0, 0, 0, 0, 1], torch.Size([4, 1]))
    """
    request = replace(make_request(k, normalization, edge_weight, graphs.edges), arcsine=arcsine)
    options = Options(None if cache is None else Path(cache), workers, engine, address)
    with progress_bar("directions", len(graphs), show=progress) as advance:
        directions, summary = find_directions(graphs, request, options, advance)
    warn_of_failures(summary)
    return with_directions(graphs, directions, request)


def make_request(k: int, normalization: Normalization, edge_weight: str | None, edges: Collection[str]) -> Request:
    """A checked request; edge tensors called ``edge_weight`` are used by default."""
    check_request(k, normalization)
    if edge_weight is not None:
        check_option("edge_weight", edge_weight, tuple(edges))
    elif "edge_weight" in edges:
        edge_weight = "edge_weight"
    return Request(int(k), normalization, edge_weight)


def find_directions(
    graphs: PackedGraphs, request: Request, options: Options, advance: Callable[[int], None] = lambda _: None
) -> tuple[ChunkDirections, Summary]:
    """The directions of all graphs and a summary; ``advance`` is called with the number of graphs of each chunk."""
    check_request(request.k, request.normalization, int(graphs.node_pointer.diff().max()) if len(graphs) else 0)
    start = time.perf_counter()
    workers = options.workers or torch.get_num_threads()
    solved: dict[int, ChunkDirections] = {}
    num_cached = 0
    with torch_threads(1):
        chunks = [partial(take, graphs, *bounds, request.edge_weight) for bounds in cut(graphs.node_pointer)]
        try:
            for index, chunk, is_cached in _solve_chunks(chunks, request, options, workers):
                solved[index] = chunk
                num_cached += is_cached
                advance(len(chunk.components))
        except KeyboardInterrupt:
            raise KeyboardInterrupt(_interrupted(len(solved), len(chunks), options.cache)) from None
        directions = ChunkDirections.join([solved[index] for index in range(len(chunks))] or [solve(graphs, request)])
    return directions, summarize(directions, len(chunks), num_cached, time.perf_counter() - start)


def _interrupted(solved: int, total: int, cache: Path | None) -> str:
    """What an interrupt leaves behind, and how to resume."""
    outcome = (
        "nothing is kept without a cache" if cache is None else f"they are kept in {cache}, and the same run resumes"
    )
    return f"Stopped. The directions of {solved} of {total} chunks of graphs were computed; {outcome}."


def _solve_chunks(
    chunks: Sequence[Callable[[], PackedGraphs]], request: Request, options: Options, workers: int
) -> Iterator[tuple[int, ChunkDirections, bool]]:
    """Yield index and directions of each chunk and whether they were cached: cached ones first, others once solved."""
    cache = None if options.cache is None else Cache(options.cache, CACHE_FORMAT)
    keys: dict[int, str] = {}
    missing: list[Job] = []
    for index, chunk in enumerate(chunks):
        tensors = None
        if cache is not None:
            keys[index] = chunk_key(cache, chunk(), request)
            tensors = cache.read(keys[index])
        if tensors is None:
            missing.append((index, chunk))
        else:
            yield index, ChunkDirections.of(tensors), True
    for index, directions in _run_engine(missing, request, options, workers):
        if cache is not None and not directions.failures:  # failed graphs are retried next time
            cache.write(keys[index], directions.tensors())
        yield index, directions, False


def chunk_key(cache: Cache, graphs: PackedGraphs, request: Request) -> str:
    """The cache key of a chunk's directions; it depends on the weights, not on their name."""
    args = {name: value for name, value in asdict(request).items() if name != "edge_weight"}
    return cache.key(graphs, args, request.edge_weight)


def _run_engine(
    jobs: list[Job], request: Request, options: Options, workers: int
) -> Iterator[tuple[int, ChunkDirections]]:
    if not jobs:
        return iter(())
    if options.engine == "ray":
        from dgn.data.precompute.ray_cluster import solve_on_ray

        return solve_on_ray(jobs, request, options.workers, options.address)
    return solve_locally(jobs, request, workers)


def check_weights(request: Request, graphs: PackedGraphs) -> None:
    """Refuse a chunk without the requested edge weights."""
    if request.edge_weight is not None and request.edge_weight not in graphs.edges:
        raise ValueError(
            f"edge_weight: expected one number per edge in {request.edge_weight!r}, got another count or another type; "
            "clean the column, or rename it if it does not hold weights"
        )


def with_directions(graphs: PackedGraphs, directions: ChunkDirections, request: Request) -> PackedGraphs:
    """The graphs with the tensors that :func:`add_directions` adds."""
    with torch_threads(1):
        component = directions.component
        first = directions.components.cumsum(0) - directions.components
        index = first.repeat_interleave(graphs.node_pointer.diff()) + component
        fits_int16 = not len(component) or int(component.max()) < 2**15
        nodes = {
            "node_potential": directions.potential,
            "component": component.short() if fits_int16 else component,
            "repeated": directions.repeated[index],
            "gap": directions.gap[index].float(),
        }
        result = graphs.with_values(nodes=nodes, edges={"edge_field": directions.field})
    return replace(result, info={**graphs.info, "directions": json.dumps(asdict(request))})
