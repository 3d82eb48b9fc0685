"""Structural encodings of all graphs of a benchmark: random-walk return probabilities and ring counts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark, graphs_in_split
from dgn.data.io.files import digest
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.cache import Cache, CacheFormat
from dgn.data.precompute.chunks import map_chunks
from dgn.data.precompute.progress import progress_bar
from dgn.encodings import EdgeTypes, Structure, return_probabilities, ring_counts
from dgn.graph import Graph
from dgn.graph.columns import as_columns

STRUCTURE = "structure"  # the encodings of nodes, and the note on them
CACHE_FORMAT = CacheFormat("dgn structure 1", ("encodings", "graph", "kernels"))


def with_encodings(
    benchmark: Benchmark,
    rwse_steps: int = 0,
    ring_sizes: Sequence[int] = (),
    cache: Path | None = None,
    progress: bool = False,
) -> Benchmark:
    """The benchmark with return probabilities of ``rwse_steps`` steps and counts of rings of ``ring_sizes``.

    Nodes get both, concatenated, as ``nodes["structure"]``. With rings, categorical or absent edge features are
    replaced by edge types: ``edges["edge_attr"]`` [E] is then the index of a combination of categories and counts, one
    of the 64 most frequent combinations in the training graphs or the nearest of them
    (:class:`dgn.encodings.EdgeTypes`). Continuous edge features get the counts as further columns.
    ``benchmark.structure`` holds the scaling and the edge types. Encodings are cached in the folder ``cache``.

    >>> from dgn.data.benchmark import load_benchmark
    >>> digits = with_encodings(load_benchmark("digits"), rwse_steps=2, ring_sizes=(3,))
    >>> digits.graphs.nodes["structure"].shape, digits.structure.edge_types.attributes.tolist()
    (torch.Size([115008, 3]), [[0]])
    """
    if not rwse_steps and not ring_sizes:
        return benchmark
    if benchmark.structure is not None:
        raise ValueError(
            f"{benchmark.name}: expected graphs without structural encodings, got random walks of "
            f"{benchmark.structure.random_walk} steps and rings {list(benchmark.structure.rings)}; load them again"
        )
    graphs, edge_types = benchmark.graphs, None
    training = torch.zeros(len(graphs), dtype=torch.bool)
    training[graphs_in_split(graphs, 0)] = True  # scaling and edge types are fitted on the training graphs alone
    encodings, counts = structural_encodings(graphs, rwse_steps, ring_sizes, cache, progress)
    if counts is not None:
        graphs, edge_types = _encode_edges(benchmark, counts, training.repeat_interleave(graphs.edge_pointer.diff()))
    training_nodes = encodings[training.repeat_interleave(graphs.node_pointer.diff())]
    structure = Structure.find(training_nodes, rwse_steps, ring_sizes, edge_types)
    return replace(benchmark, graphs=_with_nodes(graphs, encodings, structure), structure=structure)


def add_encodings(graphs: PackedGraphs, structure: Structure) -> PackedGraphs:
    """New graphs with the structural encodings of a benchmark, and the nearest of its edge types.

    Laws: the encodings of a graph do not depend on the other graphs, and equal those of :func:`with_encodings` in
    training.

    >>> from dgn.data.benchmark import load_benchmark
    >>> digits = load_benchmark("digits")
    >>> encoded, three = with_encodings(digits, rwse_steps=2), digits.graphs.select(torch.arange(3))
    >>> again = add_encodings(three, encoded.structure)
    >>> torch.equal(again.nodes["structure"], encoded.graphs.nodes["structure"][:192])
    True
    """
    encodings, counts = structural_encodings(graphs, structure.random_walk, structure.rings)
    graphs = _with_nodes(graphs, encodings, structure)
    if counts is None:
        return graphs
    if structure.edge_types is not None:
        _check_categories(graphs, len(structure.edge_types.sizes))
        attributes = edge_attributes(graphs.edges.get("edge_attr"), counts)
        return graphs.with_values(edges={"edge_attr": structure.edge_types.assign(attributes)})
    return append_edge_features(graphs, counts)


def _check_categories(graphs: PackedGraphs, expected: int) -> None:
    attributes = graphs.edges.get("edge_attr")
    columns = 0 if attributes is None else as_columns(attributes).size(1)
    if columns != expected:
        raise ValueError(
            f"edge_attr: expected {expected} categories of each edge, as in training, got {columns or 'none'}; pass "
            "the same features"
        )


def describe_structure(structure: Structure | None) -> str:
    """What decides the encodings of a graph, as text: the steps of walks, the sizes of rings, and the edge types."""
    if structure is None:
        return ""
    types = structure.edge_types
    name = "none" if types is None else digest({"edge_types": types.attributes})[:16]
    return f"random_walk {structure.random_walk} and rings {list(structure.rings)}, edge types {name}"


def _with_nodes(graphs: PackedGraphs, encodings: Tensor, structure: Structure) -> PackedGraphs:
    """The graphs with the encodings of their nodes, and a note on what they are."""
    graphs = graphs.with_values(nodes={STRUCTURE: encodings})
    return replace(graphs, info={**graphs.info, STRUCTURE: describe_structure(structure)})


def structural_encodings(
    graphs: PackedGraphs,
    rwse_steps: int,
    ring_sizes: Sequence[int],
    cache: Path | None = None,
    progress: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Encodings of nodes, [N, rwse_steps + S], and ring counts of edges, [E, S], or None without rings.

    Training and inference share this function, so that a graph has the same encodings in both.
    """
    store = None if cache is None else Cache(cache, CACHE_FORMAT)
    with progress_bar("structural encodings", len(graphs), show=progress) as advance:
        chunks = map_chunks(lambda chunk: _encode_cached(chunk, rwse_steps, ring_sizes, store), graphs, advance)
    edges = [counts for _, counts in chunks if counts is not None]
    return torch.cat([nodes for nodes, _ in chunks]), torch.cat(edges) if ring_sizes else None


def _encode_cached(
    graphs: PackedGraphs, rwse_steps: int, ring_sizes: Sequence[int], cache: Cache | None
) -> tuple[Tensor, Tensor | None]:
    """The encodings of a chunk from the cache, or computed and written to it."""
    if cache is None:
        return _encode(graphs.graph, rwse_steps, ring_sizes)
    key = cache.key(graphs, {"random_walk": rwse_steps, "rings": tuple(ring_sizes)})
    tensors = cache.read(key)
    if tensors is not None:
        return tensors["nodes"], tensors.get("edges")
    nodes, edges = _encode(graphs.graph, rwse_steps, ring_sizes)
    cache.write(key, {"nodes": nodes} | ({} if edges is None else {"edges": edges}))
    return nodes, edges


def _encode(graph: Graph, rwse_steps: int, ring_sizes: Sequence[int]) -> tuple[Tensor, Tensor | None]:
    counts = ring_counts(graph, ring_sizes) if ring_sizes else None
    columns = [return_probabilities(graph, rwse_steps)] if rwse_steps else [torch.zeros(graph.num_nodes, 0)]
    columns += [] if counts is None else [counts.nodes.float()]
    return torch.cat(columns, dim=1), None if counts is None else counts.edges


def edge_attributes(categories: Tensor | None, counts: Tensor) -> Tensor:
    """Edge categories, if there are any, followed by ring counts, [E, C + S] int64."""
    columns = [] if categories is None else [as_columns(categories)]
    return torch.cat([*columns, counts], dim=1).long()


def _encode_edges(benchmark: Benchmark, counts: Tensor, training: Tensor) -> tuple[PackedGraphs, EdgeTypes | None]:
    """The graphs with edge types, or with counts as further columns of continuous edge features."""
    graphs, edge_attr = benchmark.graphs, benchmark.graphs.edges.get("edge_attr")
    if edge_attr is not None and benchmark.edge_categories is None:
        return append_edge_features(graphs, counts), None
    attributes = edge_attributes(edge_attr, counts)
    edge_types = EdgeTypes.find(attributes[training], benchmark.edge_categories or ())
    return graphs.with_values(edges={"edge_attr": edge_types.assign(attributes)}), edge_types


def append_edge_features(graphs: PackedGraphs, features: Tensor) -> PackedGraphs:
    """The graphs with ``features`` [E, S] as further columns of ``edges["edge_attr"]``."""
    edge_attr = graphs.edges.get("edge_attr")
    columns = [] if edge_attr is None else [as_columns(edge_attr).float()]
    return graphs.with_values(edges={"edge_attr": torch.cat([*columns, features.float()], dim=1)})
