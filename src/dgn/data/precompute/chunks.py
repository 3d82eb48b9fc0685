"""A dataset cut into chunks, and the directions of one chunk."""

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
from dgn.fields import gradient
from dgn.kernels.numba.threads import for_chunks, single_threaded_torch
from dgn.spectral.laplacians import Normalization
from dgn.spectral.potentials import directions_of_many

Made = TypeVar("Made")
GRAPHS, NODES, MOST_NODES = 1000, 2**15, 2**17  # a chunk is done with so many graphs and nodes, or the most nodes
UNSOLVABLE = (ArithmeticError, ValueError, TypeError, RuntimeError, MemoryError)  # what a solver may raise for a graph


@dataclass(frozen=True)
class Request:
    """What is asked of every graph: the arguments of :func:`dgn.directions` and the name of the weights, if any."""

    k: int = 2
    normalization: Normalization = None
    edge_weight: str | None = None


@dataclass(frozen=True, eq=False)
class ChunkDirections:
    """Directions of some graphs: those of :class:`dgn.Directions`, and where each graph's components begin.

    Shapes:
        ``potential`` [N, k] and ``field`` [E, k] float32; ``component`` [N] int32, numbered within each graph;
        ``components`` [G] int64, how many each graph has; ``eigenvalues`` and ``gap`` [C, k] float64; ``repeated``
        and ``sign_is_canonical`` [C, k]. ``failures`` says why a graph could not be solved, by its number; it has
        zeros, and one component without eigenvalues.
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
        return {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "failures"}

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], failures: Mapping[int, str] | None = None) -> "ChunkDirections":
        """From what :meth:`tensors` gives."""
        return cls(**tensors, failures=failures or {})

    @classmethod
    def join(cls, parts: "Sequence[ChunkDirections]") -> "ChunkDirections":
        """The directions of all graphs of several chunks, in their order."""
        begin = np.cumsum([0, *(len(part.components) for part in parts[:-1])]).tolist()
        failures = {
            first + number: why
            for first, part in zip(begin, parts, strict=True)
            for number, why in part.failures.items()
        }
        named = [part.tensors() for part in parts]
        return cls.of({name: torch.cat([part[name] for part in named]) for name in named[0]}, failures)


def cut(node_pointer: Tensor) -> list[tuple[int, int]]:
    """First and last graph (exclusive) of each chunk: a thousand graphs or more unless they are large.

    Depends on the sizes of the graphs alone, so that chunks are the same for any number of workers.

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
    """The graphs from ``begin`` to ``end``, with nothing but their weights; shares memory."""
    node, edge = graphs.node_pointer[begin : end + 1], graphs.edge_pointer[begin : end + 1]
    edges = slice(int(edge[0]), int(edge[-1]))
    weights = {} if edge_weight is None else {edge_weight: graphs.edges[edge_weight][edges]}
    return PackedGraphs(node - node[0], edge - edge[0], graphs.edge_index[:, edges], edges=weights)


def by_chunks(make: Callable[[PackedGraphs], Made], graphs: PackedGraphs) -> list[Made]:
    """What ``make`` gives for each chunk of the bare graphs, in order; no graphs are one chunk.

    Several threads share the chunks: what is needed beside the results does not grow with their number.
    """
    chunks = cut(graphs.node_pointer) or [(0, 0)]
    made: dict[int, Made] = {}

    def work(begin: int, end: int) -> None:
        for number in range(begin, end):
            made[number] = make(take(graphs, *chunks[number]))

    with single_threaded_torch() if len(chunks) > 1 else nullcontext():
        for_chunks(work, len(chunks), 1)
    return [made[number] for number in range(len(chunks))]


def solve(graphs: PackedGraphs, request: Request) -> ChunkDirections:
    """The directions of a chunk in one call; if that fails, by halves, down to the graphs that cannot be solved."""
    try:
        return _solve(graphs, request)
    except UNSOLVABLE as problem:
        if not len(graphs):  # what was asked cannot be had of any
            raise
        if len(graphs) == 1:
            return _failed(graphs, request.k, f"{type(problem).__name__}: {problem}")
    middle = len(graphs) // 2
    halves = [take(graphs, *bounds, request.edge_weight) for bounds in ((0, middle), (middle, len(graphs)))]
    return ChunkDirections.join([solve(half, request) for half in halves])


def _solve(graphs: PackedGraphs, request: Request) -> ChunkDirections:
    graph = graphs.graph
    weight = None if request.edge_weight is None else graphs.edges[request.edge_weight].double()
    found = directions_of_many(graph, request.k, request.normalization, weight)
    assert graph.batch is not None
    # Components are numbered by their first node, hence graph by graph.
    first = torch.full((len(found.eigenvalues),), graph.num_nodes).scatter_reduce(
        0, found.component, torch.arange(graph.num_nodes), "amin"
    )
    count = torch.bincount(graph.batch[first], minlength=len(graphs))
    return ChunkDirections(
        potential=found.potential.float(),
        field=gradient(found.potential, graph).float(),
        component=(found.component - (count.cumsum(0) - count)[graph.batch]).int(),
        components=count,
        eigenvalues=found.eigenvalues,
        gap=found.gap,
        repeated=found.repeated(),
        sign_is_canonical=found.sign_is_canonical,
    )


def _failed(graph: PackedGraphs, k: int, why: str) -> ChunkDirections:
    some = int(graph.num_nodes > 0)
    return ChunkDirections(
        potential=torch.zeros(graph.num_nodes, k),
        field=torch.zeros(graph.num_edges, k),
        component=torch.zeros(graph.num_nodes, dtype=torch.int32),
        components=torch.tensor([some]),
        eigenvalues=torch.full((some, k), torch.nan, dtype=torch.float64),
        gap=torch.full((some, k), torch.nan, dtype=torch.float64),
        repeated=torch.zeros(some, k, dtype=torch.bool),
        sign_is_canonical=torch.zeros(some, k, dtype=torch.bool),
        failures={0: why},
    )
