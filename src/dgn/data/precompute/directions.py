"""Directions of every graph of a dataset: cut into chunks, solved side by side, cached."""

import json
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import torch

from dgn.data.packed import PackedGraphs
from dgn.data.precompute.cache import Cache, Kind
from dgn.data.precompute.chunks import ChunkDirections, Request, cut, solve, take
from dgn.data.precompute.local import Job, solve_locally, torch_threads
from dgn.data.precompute.progress import progress_bar
from dgn.data.precompute.summary import Summary, summarize, warn_of_failures
from dgn.graph.checks import check_option
from dgn.spectral.laplacians import Normalization, check_request

Engine = Literal["local", "ray"]
ENGINES = ("local", "ray")
KEPT = Kind("dgn directions 2", ("spectral", "graph", "fields", "kernels"))


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
    whether the eigenvalue of that direction occurs more than once in the node's component; ``nodes["gap"]`` [N, k]
    float32, its relative gap to the next one there. ``edge_weight`` names the edge values that are weights of the
    Laplacian; by default those called ``edge_weight``, if there are any.

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
    return with_directions(graphs, found, request)


def make_request(k: int, normalization: Normalization, edge_weight: str | None, edges: Collection[str]) -> Request:
    """A checked request; weights called ``edge_weight`` are used wherever there are any."""
    check_request(k, normalization)
    if edge_weight is not None:
        check_option("edge_weight", edge_weight, tuple(edges))
    elif "edge_weight" in edges:
        edge_weight = "edge_weight"
    return Request(int(k), normalization, edge_weight)


def find_directions(
    graphs: PackedGraphs, request: Request, options: Options, advance: Callable[[int], None] = lambda _: None
) -> tuple[ChunkDirections, Summary]:
    """The directions of all graphs, and what was done for them; ``advance`` is told how many more graphs are done."""
    began = time.perf_counter()
    workers = options.workers or torch.get_num_threads()
    parts: dict[int, ChunkDirections] = {}
    cached = 0
    with torch_threads(1):
        chunks = [partial(take, graphs, *bounds, request.edge_weight) for bounds in cut(graphs.node_pointer)]
        for number, found, known in _chunks(chunks, request, options, workers):
            parts[number] = found
            cached += known
            advance(len(found.components))
        whole = ChunkDirections.join([parts[number] for number in range(len(chunks))] or [solve(graphs, request)])
    return whole, summarize(whole, len(chunks), cached, time.perf_counter() - began)


def _chunks(
    chunks: Sequence[Callable[[], PackedGraphs]], request: Request, options: Options, workers: int
) -> Iterator[tuple[int, ChunkDirections, bool]]:
    """Number and directions of each chunk, and whether they were known: those first, the others as they are solved."""
    store = None if options.cache is None else Cache(options.cache, KEPT)
    keys: dict[int, str] = {}
    missing: list[Job] = []
    for number, chunk in enumerate(chunks):
        known = None
        if store is not None:
            keys[number] = chunk_key(store, chunk(), request)
            known = store.read(keys[number])
        if known is None:
            missing.append((number, chunk))
        else:
            yield number, ChunkDirections.of(known), True
    for number, found in _solve(missing, request, options, workers):
        if store is not None and not found.failures:  # what failed is tried again next time
            store.write(keys[number], found.tensors())
        yield number, found, False


def chunk_key(store: Cache, graphs: PackedGraphs, request: Request) -> str:
    """The name of a chunk's directions in the cache; that of the weights does not matter, they do."""
    asked = {name: value for name, value in asdict(request).items() if name != "edge_weight"}
    return store.key(graphs, asked, request.edge_weight)


def _solve(jobs: list[Job], request: Request, options: Options, workers: int) -> Iterator[tuple[int, ChunkDirections]]:
    if not jobs:
        return iter(())
    if options.engine == "ray":
        from dgn.data.precompute.ray_cluster import solve_on_ray

        return solve_on_ray(jobs, request, options.workers, options.address)
    return solve_locally(jobs, request, workers)


def check_weights(request: Request, graphs: PackedGraphs) -> None:
    """The weights that were asked for are there."""
    if request.edge_weight is not None and request.edge_weight not in graphs.edges:
        raise ValueError(
            f"edge_weight: expected one number per edge in {request.edge_weight!r}, got another count, or no numbers; "
            "clean the values, or rename them if they are not weights"
        )


def with_directions(graphs: PackedGraphs, found: ChunkDirections, request: Request) -> PackedGraphs:
    """The graphs with the values that :func:`add_directions` adds."""
    with torch_threads(1):
        first = found.components.cumsum(0) - found.components
        number = first.repeat_interleave(graphs.node_pointer.diff()) + found.component
        small = not len(found.component) or int(found.component.max()) < 2**15
        nodes = {
            "potential": found.potential,
            "component": found.component.short() if small else found.component,
            "repeated": found.repeated[number],
            "gap": found.gap[number].float(),
        }
        added = graphs.with_values(nodes=nodes, edges={"field": found.field})
    return replace(added, info={**graphs.info, "directions": json.dumps(asdict(request))})
