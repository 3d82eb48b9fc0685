"""A graph: edges checked once, sorted by target once, with their transpose."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from dgn.graph.checks import HAS_TRITON, check_edge_index, check_inferred_nodes, check_num_nodes
from dgn.graph.memo import make_constant, remember_with
from dgn.kernels.layout import SortedEdges

T = TypeVar("T")

FEW_EDGES = 1 << 20  # up to which both orders of edges are sorted at once on a GPU
MOST_NODES = 1 << 29  # for the same, as both ends of edges are numbered with int32


class Layout(NamedTuple):
    """Edges grouped by one of their ends, as in a compressed sparse row matrix.

    The edges of node ``i`` are ``order[pointer[i] : pointer[i + 1]]``, as positions in ``edge_index``;
    ``neighbor`` holds their other ends in the same order. The sort is stable. ``order`` and ``neighbor`` are int32
    where that is enough: kernels read them for every edge.
    """

    pointer: Tensor
    order: Tensor
    neighbor: Tensor


@dataclass(eq=False)
class GraphParts:
    """Parts of a graph that are computed on first use, or filled in by a loader (:meth:`Graph.from_layout`).

    ``node_pointer`` [G + 1], the first node of each graph, is only ever filled in. ``sorted_by_target``: ``edge_index``
    has the order of ``by_target`` already; ``padded``: edges behind the last pointer are padding. ``derived`` holds
    what other modules compute of a graph, under keys of a type of their own.
    """

    num_graphs: int | None = None
    sorted_by_target: bool = False
    padded: bool = False
    by_target: Layout | None = None
    by_source: Layout | None = None
    source_pointer: Tensor | None = None
    target_to_source: Tensor | None = None
    edge_to_source: Tensor | None = None
    source_order: Tensor | None = None
    in_degree: Tensor | None = None
    node_pointer: Tensor | None = None
    graph_size: dict[torch.dtype, Tensor] = field(default_factory=dict)
    graph_norm: dict[torch.dtype, Tensor] = field(default_factory=dict)
    derived: dict[Hashable, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A directed multigraph in which the edge ``(j, i)`` carries a message from ``j`` to ``i``.

    Make one with :func:`as_graph`, which checks the input. Wherever a function takes ``edge_index``, it takes a
    ``Graph`` too and then skips the checks and reuses what was computed before.

    - Parallel edges are separate messages; in the Laplacian their weights add up.
    - A self-loop is a message from a node to itself; it does not enter the Laplacian, and a gradient is 0 on it.
    - ``batch`` numbers the graph of each node where several graphs are stored side by side; ``None`` is one graph.

    Shapes:
        ``edge_index`` [2, E], ``batch`` [N].

    >>> import torch
    >>> graph = as_graph(torch.tensor([[1, 0, 2], [0, 1, 1]]), num_nodes=3)
    >>> graph.by_target.pointer.tolist(), graph.by_target.neighbor.tolist()
    ([0, 1, 3, 3], [1, 0, 2])
    >>> graph.by_source.neighbor.tolist(), graph.in_degree.tolist()
    ([1, 0, 1], [1, 2, 0])
    """

    edge_index: Tensor
    num_nodes: int
    batch: Tensor | None = None
    parts: GraphParts = None  # type: ignore[assignment]  # set below: torch.compile traces no default factory

    def __post_init__(self) -> None:
        if self.parts is None:
            object.__setattr__(self, "parts", GraphParts())

    def cached(self, key: Hashable, make: Callable[[], T]) -> T:
        """What another module derives from the graph, computed on first use; ``key`` is of a type of its own."""
        return _keep(self.parts.derived, key, make)

    def _part(self, name: str, make: Callable[[], T]) -> T:
        return _keep(self.parts.__dict__, name, make)

    def __repr__(self) -> str:
        graphs = "" if self.batch is None else f", num_graphs={self.num_graphs}"
        return f"Graph(num_nodes={self.num_nodes}, num_edges={self.num_edges}{graphs})"

    def to(self, device: torch.device | str) -> "Graph":
        """The same graph on another device, where its parts are computed anew."""
        batch = None if self.batch is None else self.batch.to(device)
        return Graph(self.edge_index.to(device), self.num_nodes, batch, GraphParts(num_graphs=self.parts.num_graphs))

    @classmethod
    def from_layout(cls, edge_index: Tensor, batch: Tensor, parts: GraphParts) -> "Graph":
        """A graph whose parts were computed elsewhere: nothing is checked, sorted or counted again.

        Edges behind the last pointer are padding: no node receives them.
        """
        parts.padded = True
        return cls(edge_index, batch.size(0), batch, parts)

    @property
    def source(self) -> Tensor:
        return self.edge_index[0]

    @property
    def target(self) -> Tensor:
        return self.edge_index[1]

    @property
    def num_edges(self) -> int:
        return self.edge_index.size(1)

    @property
    def num_graphs(self) -> int:
        batch = self.batch
        if batch is None:
            return 1
        return self._part("num_graphs", lambda: int(batch.max()) + 1 if self.num_nodes else 0)

    @property
    def by_target(self) -> Layout:
        """The in-edges of each node, in the order in which messages are aggregated."""
        return self._part("by_target", self._sort)

    def _sort(self) -> Layout:
        """The edges by target; on a GPU, where few edges cost launches alone, by source at the same time."""
        both = self._traced()
        if both is None and not sorts_at_once(self.edge_index, self.num_nodes):
            return group_edges(self.target, self.source, self.num_nodes)
        if both is None:
            from dgn.kernels.triton.layout import sort_edges

            both, parts = sort_edges(self.edge_index, self.num_nodes), self.parts
            parts.source_pointer, parts.source_order = both.source_pointer, both.source_order
            parts.edge_to_source = both.edge_to_source
        return Layout(both.pointer, both.order, both.neighbor)

    def _traced(self) -> SortedEdges | None:
        """The edges by target and by source while tracing for a GPU, else ``None``; equal calls become one."""
        if not self._is_traced():
            return None
        return SortedEdges(*torch.ops.dgn.sort_edges(self.edge_index, self.num_nodes))

    def _is_traced(self) -> bool:
        return torch.compiler.is_compiling() and self.edge_index.is_cuda and HAS_TRITON

    @property
    def by_source(self) -> Layout:
        """The out-edges of each node, the transpose in which gradients flow back."""
        return self._part("by_source", lambda: group_edges(self.source, self.target, self.num_nodes))

    @property
    def source_pointer(self) -> Tensor:
        """Where the out-edges of each node begin in the order sorted by source. [N + 1]"""
        return self._part("source_pointer", self._make_source_pointer)

    def _make_source_pointer(self) -> Tensor:
        both = self._traced()
        return self.by_source.pointer if both is None else both.source_pointer

    @property
    def target_to_source(self) -> Tensor:
        """Where the edge at each place of the order sorted by target stands in the order sorted by source. [E]"""
        return self._part("target_to_source", self._make_target_to_source)

    def _make_target_to_source(self) -> Tensor:
        both = self._traced()
        if both is not None:
            return both.edge_to_source[both.order]
        order, place = self.by_target.order, self.parts.edge_to_source
        return (invert(self.by_source.order) if place is None else place)[order]

    @property
    def source_order(self) -> Tensor:
        """The edges sorted by source, as places in ``edge_index``. [E]"""
        return self._part("source_order", self._make_source_order)

    def _make_source_order(self) -> Tensor:
        both = self._traced()
        return self.by_source.order if both is None else both.source_order

    def source_places(self, by_edge: bool) -> tuple[Tensor | None, Tensor | None]:
        """``target_to_source`` and ``source_order``, one of them ``None``: kernels need only one."""
        has_order = self.parts.source_order is not None or self._is_traced()
        by_edge = by_edge or (has_order and not self.parts.padded)
        return (None, self.source_order) if by_edge else (self.target_to_source, None)

    @property
    def edge_to_source(self) -> Tensor:
        """Where each edge, in the order of ``edge_index``, stands in the order sorted by source. [E]"""
        return self._part("edge_to_source", self._make_edge_to_source)

    def _make_edge_to_source(self) -> Tensor:
        place = self.target_to_source
        return torch.zeros_like(place).index_copy(0, self.by_target.order.long(), place)

    @property
    def in_degree(self) -> Tensor:
        return self._part("in_degree", lambda: self.by_target.pointer.diff())

    def sum_to_target(self, values: Tensor) -> Tensor:
        """Sum edge values into the nodes that receive them: ``[E, ...] -> [N, ...]``. The same bits on every run."""
        if values.is_cuda:
            return self.sum_sorted(values[self.by_target.order])
        return values.new_zeros(self.num_nodes, *values.shape[1:]).index_add(0, self.target, values)

    def sum_sorted(self, values: Tensor) -> Tensor:
        """``sum_to_target`` of values in the order sorted by target."""
        if values.is_cuda:  # additions into one place have no fixed order there, sums of segments have
            return torch.segment_reduce(values, "sum", offsets=self.by_target.pointer, axis=0, initial=0)
        target = self.target.index_select(0, self.by_target.order)
        return values.new_zeros(self.num_nodes, *values.shape[1:]).index_add(0, target, values)

    def sum_over_graph(self, values: Tensor, mean: bool = False) -> Tensor:
        """Sum node values over each graph: ``[N, ...] -> [G, ...]``; with ``mean``, average them, 0 without nodes."""
        pointer = self.parts.node_pointer
        if values.is_cuda and values.dim() == 2 and pointer is not None and find_spec("triton") is not None:
            from dgn.kernels.triton.segment_sum import SegmentSum

            summed: Tensor = SegmentSum.apply(values, pointer, self.batch, mean)  # type: ignore[no-untyped-call]
            return summed
        number = self.target.new_zeros(self.num_nodes) if self.batch is None else self.batch
        total = values.new_zeros(self.num_graphs, *values.shape[1:]).index_add(0, number, values)
        return total / self.graph_size(values.dtype).clamp(min=1) if mean else total

    def graph_size(self, dtype: torch.dtype) -> Tensor:
        """The number of nodes of each graph. [G, 1]"""

        def count() -> Tensor:
            return self.sum_over_graph(torch.ones(self.num_nodes, 1, dtype=dtype, device=self.edge_index.device))

        return _keep(self.parts.graph_size, dtype, count)

    def graph_norm(self, dtype: torch.dtype) -> Tensor:
        """The factor 1 / sqrt(nodes of the graph) of each node. [N, 1]"""

        def compute() -> Tensor:
            factor = self.graph_size(dtype).rsqrt()
            return factor.repeat(self.num_nodes, 1) if self.batch is None else factor[self.batch]

        return _keep(self.parts.graph_norm, dtype, compute)

    def max_to_target(self, values: Tensor) -> Tensor:
        """The largest of the non-negative edge values that a node receives, 0 for none: ``[E, ...] -> [N, ...]``."""
        return largest_by(values, self.target, self.num_nodes)

    def max_over_graph(self, values: Tensor) -> Tensor:
        """The largest of the non-negative edge values in the graph of each edge: ``[E, ...] -> [E or 1, ...]``."""
        if self.batch is None or self.num_edges == 0:
            return values.amax(dim=0, keepdim=True) if self.num_edges else values
        graph = self.batch[self.target]
        return largest_by(values, graph, self.num_graphs)[graph]


def as_graph(
    edge_index: Any, num_nodes: int | None = None, batch: Tensor | None = None, num_graphs: int | None = None
) -> Graph:
    """Check a graph once and wrap it; a ``Graph`` passes through.

    ``edge_index`` is a tensor ``[2, E]``, PyG's ``EdgeIndex``, a ``Graph``, a PyG ``Data`` or ``Batch``, whose
    ``num_nodes`` and ``batch`` are then used, packed graphs, which are taken side by side, or the transposed adjacency
    as a CSR matrix. ``num_nodes`` defaults to one more than the highest node that has an edge, and ``num_graphs`` to
    one more than the highest number in ``batch``.

    With ``num_nodes`` and without ``batch``, as layers call it, the graph of a tensor is remembered for as long as the
    tensor lives and is not changed: layers that are given the same ``edge_index`` check and sort it once.

    >>> import torch
    >>> as_graph(torch.tensor([[0], [3]])).num_nodes
    4
    """
    if isinstance(edge_index, Graph):
        if batch is None and num_graphs is None and num_nodes in (None, edge_index.num_nodes):
            return edge_index
        check_num_nodes("Graph", edge_index.num_nodes, num_nodes, "give as many rows of features as it has nodes")
        if batch is None and num_graphs == edge_index._part("num_graphs", lambda: num_graphs):
            return edge_index
        batch = edge_index.batch if batch is None else batch
        return as_graph(edge_index.edge_index, edge_index.num_nodes, batch, num_graphs)
    if isinstance(edge_index, Tensor):
        if batch is None and num_graphs is None and num_nodes is not None:
            edges = edge_index
            return remember_with(edges, (Graph, num_nodes), lambda: _make_graph(edges, num_nodes))
        return _make_graph(edge_index, num_nodes, batch, num_graphs)
    if hasattr(data := edge_index, "edge_index") and hasattr(data, "num_nodes"):
        if isinstance(whole := getattr(data, "graph", None), Graph):  # packed: nodes of each one count from 0
            return as_graph(whole, num_nodes, batch, num_graphs)
        if batch is None and (batch := getattr(data, "batch", None)) is not None and num_graphs is None:
            num_graphs = getattr(data, "num_graphs", None)  # those at the end may have no nodes
        edges, count = data.edge_index, data.num_nodes  # properties of PyG that take their time
        if num_nodes is None and isinstance(edges, Tensor):  # PyG may have inferred its number of nodes
            check_inferred_nodes((count or 0) - 1, edges.size(-1))
        check_num_nodes(type(data).__name__, count, num_nodes, "set its own num_nodes if that is wrong")
        return as_graph(edges, count, batch, num_graphs)
    return _make_graph(edge_index, num_nodes, batch, num_graphs)


def _make_graph(
    edge_index: Any, num_nodes: int | None, batch: Tensor | None = None, num_graphs: int | None = None
) -> Graph:
    edge_index, num_nodes = check_edge_index(_as_plain(edge_index), num_nodes)
    if batch is not None and not isinstance(batch, Tensor):
        raise TypeError(f"batch: expected a tensor [N], got {type(batch).__name__}; convert it with torch.as_tensor")
    tracing = torch.compiler.is_compiling()
    if batch is not None and (
        batch.shape != (num_nodes,) or batch.is_floating_point() or (not tracing and bool((batch < 0).any()))
    ):
        raise ValueError(
            f"batch: expected the graph number (0 or more) of each of {num_nodes} nodes, got {batch.dtype} of shape "
            f"{list(batch.shape)}; PyG's Batch.batch has this form"
        )
    # Detached: a graph that is remembered with an edge_index must not keep it alive. Bytes would index as a mask.
    graph = Graph(edge_index.detach(), num_nodes, None if batch is None else batch.long())
    if num_graphs is not None:
        graph.parts.num_graphs = num_graphs
    return graph


def _as_plain(edge_index: Any) -> Any:
    """The edges of PyG's ``EdgeIndex`` or of a CSR matrix; anything else as it is.

    A CSR matrix is the transposed adjacency, as in PyG: row i holds the sources of the messages to i.
    """
    if isinstance(edge_index, Tensor) and edge_index.layout == torch.sparse_csr:
        degree = edge_index.crow_indices().diff()
        target = torch.repeat_interleave(torch.arange(degree.size(0), device=degree.device), degree)
        return torch.stack([edge_index.col_indices(), target])
    return edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index


def graph_of_nodes(edge_index: Any, nodes: Tensor) -> Graph:
    """The graph of node values: a bare ``edge_index`` has as many nodes as there are rows."""
    return as_graph(edge_index, len(nodes) if isinstance(edge_index, Tensor) else None)


def gather_rows(values: Tensor, index: Tensor) -> Tensor:
    """Rows of ``values``, in a way whose gradient has the same bits on every run: it differs between devices."""
    return values[index] if values.is_cuda else values.index_select(0, index)


def _keep(parts: dict[Any, Any], key: Hashable, make: Callable[[], T]) -> T:
    """``parts[key]``, computed on first use, except while tracing, when nothing can be kept."""
    part: T | None = parts.get(key)
    if part is not None:
        return part
    if torch.compiler.is_compiling():
        return make()
    part = parts[key] = make_constant(make)
    return part


def sorts_at_once(edge_index: Tensor, num_nodes: int) -> bool:
    """Whether kernels sort edges by both ends at once: few on a GPU, where each launch costs more than a sort."""
    if not (edge_index.is_cuda and HAS_TRITON):  # first: tracing would note the sizes that are asked for
        return False
    return 0 < edge_index.size(1) <= FEW_EDGES and num_nodes <= MOST_NODES


def group_edges(end: Tensor, other: Tensor, num_nodes: int) -> Layout:
    """Edges sorted by one of their ends."""
    sorted_end, order = end.sort(stable=True)
    pointer = torch.searchsorted(sorted_end, torch.arange(num_nodes + 1, device=end.device))
    index = torch.int32 if max(end.size(0), num_nodes) < 2**31 else torch.int64
    return Layout(pointer, order.to(index), other[order].to(index))


def invert(order: Tensor) -> Tensor:
    """The inverse of a permutation."""
    positions = torch.arange(order.size(0), device=order.device, dtype=order.dtype)
    # Of zeros: torch.compile computes what begins with an empty tensor anew in every layer.
    return torch.zeros_like(order).index_copy(0, order.long(), positions)


def largest_by(values: Tensor, index: Tensor, size: int) -> Tensor:
    """The largest of the non-negative rows that share an index, 0 for none: ``[R, ...] -> [size, ...]``."""
    expanded = index.long().view(-1, *[1] * (values.dim() - 1)).expand_as(values)
    return values.new_zeros(size, *values.shape[1:]).scatter_reduce(0, expanded, values, reduce="amax")
