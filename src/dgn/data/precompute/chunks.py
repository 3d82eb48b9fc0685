"""Chunks of a dataset, and the directions of one chunk."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from dgn.data.packed import PackedGraphs
from dgn.fields import arcsine, gradient
from dgn.kernels.numba.threads import for_chunks, single_threaded_torch
from dgn.spectral.laplacians import Normalization
from dgn.spectral.potentials import directions_of_many

Result = TypeVar("Result")
GRAPHS, NODES, MOST_NODES = 1000, 2**15, 2**17  # a chunk ends at GRAPHS graphs and NODES nodes, or at MOST_NODES
UNSOLVABLE = (ArithmeticError, ValueError, TypeError, RuntimeError, MemoryError)  # raised by solvers


@dataclass(frozen=True)
class Request:
    """The arguments of :func:`dgn.directions` for every graph, with the weights by name; ``arcsine`` of the result."""

    k: int = 2
    normalization: Normalization = None
    edge_weight: str | None = None
    arcsine: bool = False


@dataclass(frozen=True, eq=False)
class ChunkDirections:
    """Directions of a chunk of graphs: the tensors of :class:`dgn.Directions`, concatenated.

    Shapes:
        ``potential`` [N, k] and ``field`` [E, k] float32; ``component`` [N] int32, numbered within each graph;
        ``components`` [G] int64, the number of components of each graph; ``eigenvalues`` and ``gap`` [C, k] float64;
        ``repeated`` and ``sign_is_canonical`` [C, k] bool. ``failures`` maps the index of a graph that could not be
        solved to the error; such a graph has zeros, and one component with NaN eigenvalues.
    """

    potential: Tensor
    field: Tensor
    component: Tensor
    components: Tensor
    eigenvalues: Tensor
    gap: Tensor
    repeated: Tensor
    sign_is_canonical: Tensor
    failures: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def tensors(self) -> dict[str, Tensor]:
        names = [field.name for field in dataclasses.fields(self) if field.name != "failures"]
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], failures: Mapping[int, str] | None = None) -> "ChunkDirections":
        """The inverse of :meth:`tensors`."""
        return cls(**tensors, failures=failures or {})

    @classmethod
    def join(cls, chunks: "Sequence[ChunkDirections]") -> "ChunkDirections":
        """The concatenation of several chunks, in order."""
        offsets = np.cumsum([0, *(len(chunk.components) for chunk in chunks[:-1])]).tolist()
        failures = {
            offset + index: error
            for offset, chunk in zip(offsets, chunks, strict=True)
            for index, error in chunk.failures.items()
        }
        tensors = [chunk.tensors() for chunk in chunks]
        return cls.of({name: torch.cat([chunk[name] for chunk in tensors]) for name in tensors[0]}, failures)


def cut(node_pointer: Tensor) -> list[tuple[int, int]]:
    """First and last graph (exclusive) of each chunk: at least a thousand graphs unless they are large.

    Depends only on the sizes of the graphs, so that chunks are the same for any number of workers.

    >>> cut(torch.arange(0, 2501 * 40, 40))
    [(0, 1000), (1000, 2000), (2000, 2500)]
    >>> cut(torch.tensor([0, 200_000, 200_010, 400_000]))
    [(0, 1), (1, 3)]
    """
    pointer = node_pointer.numpy()
    total, bounds = len(pointer) - 1, [0]
    while bounds[-1] < total:
        begin = bounds[-1]
        enough = max(begin + GRAPHS, int(np.searchsorted(pointer, pointer[begin] + NODES)))
        most = int(np.searchsorted(pointer, pointer[begin] + MOST_NODES))
        bounds.append(min(enough, max(most, begin + 1), total))
    return list(pairwise(bounds))


def take(graphs: PackedGraphs, begin: int, end: int, edge_weight: str | None = None) -> PackedGraphs:
    """The graphs from ``begin`` to ``end`` (exclusive) with their weights alone; shares memory."""
    node, edge = graphs.node_pointer[begin : end + 1], graphs.edge_pointer[begin : end + 1]
    edges = slice(int(edge[0]), int(edge[-1]))
    weights = {} if edge_weight is None else {edge_weight: graphs.edges[edge_weight][edges]}
    return PackedGraphs(node - node[0], edge - edge[0], graphs.edge_index[:, edges], edges=weights)


def map_chunks(
    function: Callable[[PackedGraphs], Result], graphs: PackedGraphs, advance: Callable[[int], None] = lambda _: None
) -> list[Result]:
    """``function`` of each chunk of the graphs without their features, in order; no graphs are one empty chunk.

    ``advance`` is called with the number of graphs of each. Threads share the chunks, so temporary memory does not grow
    with the size of the dataset.
    """
    chunks = cut(graphs.node_pointer) or [(0, 0)]
    results: dict[int, Result] = {}

    def work(begin: int, end: int) -> None:
        for index in range(begin, end):
            chunk = take(graphs, *chunks[index])
            results[index] = function(chunk)
            advance(len(chunk))

    with single_threaded_torch() if len(chunks) > 1 else nullcontext():
        for_chunks(work, len(chunks), 1)
    return [results[index] for index in range(len(chunks))]


def solve(graphs: PackedGraphs, request: Request) -> ChunkDirections:
    """The directions of a chunk in one call; if that fails, by bisection down to the graphs that cannot be solved."""
    try:
        return _solve(graphs, request)
    except UNSOLVABLE as problem:
        if not len(graphs):  # the request itself is wrong
            raise
        if len(graphs) == 1:
            return _failed(graphs, request.k, f"{type(problem).__name__}: {problem}")
    middle = len(graphs) // 2
    halves = [take(graphs, *bounds, request.edge_weight) for bounds in ((0, middle), (middle, len(graphs)))]
    return ChunkDirections.join([solve(half, request) for half in halves])


def _solve(graphs: PackedGraphs, request: Request) -> ChunkDirections:
    graph = graphs.graph
    weight = None if request.edge_weight is None else graphs.edges[request.edge_weight].double()
    solved = directions_of_many(graph, request.k, request.normalization, weight)
    assert graph.batch is not None
    # Components are numbered by their first node, hence graph by graph.
    first = torch.full((len(solved.eigenvalues),), graph.num_nodes).scatter_reduce(
        0, solved.component, torch.arange(graph.num_nodes), "amin"
    )
    count = torch.bincount(graph.batch[first], minlength=len(graphs))
    potential = arcsine(solved.potential, solved.component) if request.arcsine else solved.potential
    return ChunkDirections(
        potential=potential.float(),
        field=gradient(potential, graph).float(),
        component=(solved.component - (count.cumsum(0) - count)[graph.batch]).int(),
        components=count,
        eigenvalues=solved.eigenvalues,
        gap=solved.gap,
        repeated=solved.repeated(),
        sign_is_canonical=solved.sign_is_canonical,
    )


def _failed(graph: PackedGraphs, k: int, error: str) -> ChunkDirections:
    components = int(graph.num_nodes > 0)
    return ChunkDirections(
        potential=torch.zeros(graph.num_nodes, k),
        field=torch.zeros(graph.num_edges, k),
        component=torch.zeros(graph.num_nodes, dtype=torch.int32),
        components=torch.tensor([components]),
        eigenvalues=torch.full((components, k), torch.nan, dtype=torch.float64),
        gap=torch.full((components, k), torch.nan, dtype=torch.float64),
        repeated=torch.zeros(components, k, dtype=torch.bool),
        sign_is_canonical=torch.zeros(components, k, dtype=torch.bool),
        failures={0: error},
    )
