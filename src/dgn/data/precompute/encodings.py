"""Structural numbers of all graphs of a benchmark."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.cache import Cache, Kind
from dgn.data.precompute.chunks import by_chunks
from dgn.encodings import EdgeTypes, Structure, return_probabilities, ring_counts
from dgn.graph import Graph
from dgn.graph.columns import as_columns

KEPT = Kind("dgn structure 1", ("structure", "graph"))


def with_encodings(
    benchmark: Benchmark,
    random_walk: int = 0,
    rings: Sequence[int] = (),
    cache: Path | None = None,
) -> Benchmark:
    """The benchmark with return probabilities of ``random_walk`` steps and counts of ``rings``.

    Nodes get all of them side by side as ``nodes["structure"]``. With rings, edges with categories or without features
    become kinds: ``edges["edge_attr"]`` [E] is then the number of a combination of categories and counts, the 64 most
    frequent ones of the training graphs, and any other edge is of the nearest kind (:class:`dgn.encodings.EdgeTypes`).
    Edges whose features are numbers get the counts as more columns. ``benchmark.structure`` says what was found. In a
    folder ``cache`` the numbers are kept and found again.

    >>> from dgn.data.benchmark import load_benchmark
    >>> digits = with_encodings(load_benchmark("digits"), random_walk=2, rings=(3,))
    >>> digits.graphs.nodes["structure"].shape, digits.structure.kinds.attributes.tolist()
    (torch.Size([115008, 3]), [[0]])
    """
    if not random_walk and not rings:
        return benchmark
    if benchmark.structure is not None:
        raise ValueError(
            f"{benchmark.name}: expected graphs without structural numbers, got some with "
            f"{benchmark.structure.random_walk} steps and rings {list(benchmark.structure.rings)}; load them anew"
        )
    graphs, kinds, training = benchmark.graphs, None, benchmark.graphs.graphs["split"] == 0  # others decide nothing
    structure, counts = structural_encodings(graphs, random_walk, rings, cache)
    if counts is not None:
        graphs, kinds = _with_edges(benchmark, counts, training.repeat_interleave(graphs.edge_pointer.diff()))
    seen = structure[training.repeat_interleave(graphs.node_pointer.diff())]
    found = Structure.find(seen, random_walk, rings, kinds)
    return replace(benchmark, graphs=graphs.with_values(nodes={"structure": structure}), structure=found)


def add_encodings(graphs: PackedGraphs, structure: Structure) -> PackedGraphs:
    """Other graphs with the structural numbers that those of a benchmark have, and edges of its nearest kinds.

    Laws: what a graph gets does not depend on those beside it, and is what :func:`with_encodings` gave it in training.

    >>> from dgn.data.benchmark import load_benchmark
    >>> digits = load_benchmark("digits")
    >>> known, few = with_encodings(digits, random_walk=2), digits.graphs.select(torch.arange(3))
    >>> torch.equal(add_encodings(few, known.structure).nodes["structure"], known.graphs.nodes["structure"][:192])
    True
    """
    values, counts = structural_encodings(graphs, structure.random_walk, structure.rings)
    graphs, given = graphs.with_values(nodes={"structure": values}), graphs.edges.get("edge_attr")
    if counts is None:
        return graphs
    if structure.kinds is not None:
        return graphs.with_values(edges={"edge_attr": structure.kinds.number(edge_attributes(given, counts))})
    return with_edge_numbers(graphs, counts)


def structural_encodings(
    graphs: PackedGraphs,
    random_walk: int,
    rings: Sequence[int],
    cache: Path | None = None,
) -> tuple[Tensor, Tensor | None]:
    """The numbers of nodes side by side, [N, random_walk + S], and the rings through edges, [E, S], if S is not 0.

    One function for training and prediction, so that both give a graph the same numbers.
    """
    store = None if cache is None else Cache(cache, KEPT)
    found = by_chunks(lambda some: _kept(some, random_walk, rings, store), graphs)
    edges = [counts for _, counts in found if counts is not None]
    return torch.cat([nodes for nodes, _ in found]), torch.cat(edges) if rings else None


def _kept(
    graphs: PackedGraphs, random_walk: int, rings: Sequence[int], store: Cache | None
) -> tuple[Tensor, Tensor | None]:
    """The numbers of a chunk from the cache, else computed and kept there."""
    if store is None:
        return _numbers_of(graphs.graph, random_walk, rings)
    key = store.key(graphs, {"random_walk": random_walk, "rings": tuple(rings)})
    known = store.read(key)
    if known is not None:
        return known["nodes"], known.get("edges")
    nodes, edges = _numbers_of(graphs.graph, random_walk, rings)
    store.write(key, {"nodes": nodes} | ({} if edges is None else {"edges": edges}))
    return nodes, edges


def _numbers_of(graph: Graph, random_walk: int, rings: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    counts = ring_counts(graph, rings) if rings else None
    values = [return_probabilities(graph, random_walk)] if random_walk else []
    values += [] if counts is None else [counts.nodes.float()]
    return torch.cat(values, dim=1), None if counts is None else counts.edges


def edge_attributes(given: Tensor | None, counts: Tensor) -> Tensor:
    """Categories of edges, if they have some, and behind them their rings: whole numbers, [E, C + S]."""
    columns = [] if given is None else [as_columns(given)]
    return torch.cat([*columns, counts], dim=1).long()


def _with_edges(benchmark: Benchmark, counts: Tensor, training: Tensor) -> tuple[PackedGraphs, EdgeTypes | None]:
    """The graphs with edges of few kinds, or with counts behind their numbers."""
    graphs, given = benchmark.graphs, benchmark.graphs.edges.get("edge_attr")
    if given is not None and benchmark.edge_categories is None:
        return with_edge_numbers(graphs, counts), None
    attributes = edge_attributes(given, counts)
    kinds = EdgeTypes.find(attributes[training], benchmark.edge_categories or ())
    return graphs.with_values(edges={"edge_attr": kinds.number(attributes)}), kinds


def with_edge_numbers(graphs: PackedGraphs, numbers: Tensor) -> PackedGraphs:
    """Graphs with ``numbers`` [E, S] of edges behind those that they have."""
    given = graphs.edges.get("edge_attr")
    before = [] if given is None else [as_columns(given).float()]
    return graphs.with_values(edges={"edge_attr": torch.cat([*before, numbers.float()], dim=1)})
