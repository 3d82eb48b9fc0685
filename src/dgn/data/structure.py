"""Structural numbers of all graphs of a benchmark."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from dgn.data.benchmarks import Benchmark
from dgn.data.packed import PackedGraphs
from dgn.structure import Kinds, Structure, return_probabilities, ring_counts


def with_structure(benchmark: Benchmark, random_walk: int = 0, rings: Sequence[int] = ()) -> Benchmark:
    """The benchmark with return probabilities of ``random_walk`` steps and counts of ``rings`` of these sizes.

    Nodes get both side by side as ``nodes["structure"]``. Edges with categories, or without features, become kinds:
    ``edges["edge_attr"]`` [E] is then the number of a combination of categories and counts, the 64 most frequent ones
    of the training graphs, and any other edge is of the nearest kind (:class:`dgn.structure.Kinds`). Edges whose
    features are numbers get the counts as more columns. ``benchmark.structure`` says what was found.

    >>> from dgn.data.benchmarks import load_benchmark
    >>> digits = with_structure(load_benchmark("digits"), random_walk=2, rings=(3,))
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
    graphs, graph = benchmark.graphs, benchmark.graphs.graph
    training = _training(graphs)
    values, kinds = [], None
    if random_walk:
        values.append(return_probabilities(graph, random_walk))
    if rings:
        counts = ring_counts(graph, rings)
        values.append(counts.nodes.float())
        graphs, kinds = _with_edges(benchmark, counts.edges, training[graph.target])
    structure = torch.cat(values, dim=1)
    found = Structure.find(structure[training], random_walk, rings, kinds)
    return replace(benchmark, graphs=graphs.with_values(nodes={"structure": structure}), structure=found)


def _training(graphs: PackedGraphs) -> Tensor:
    """Whether each node is one of a training graph: those of other graphs decide nothing."""
    return (graphs.graphs["split"] == 0).repeat_interleave(graphs.node_pointer.diff())


def _with_edges(benchmark: Benchmark, counts: Tensor, training: Tensor) -> tuple[PackedGraphs, Kinds | None]:
    """The graphs with edges of few kinds, or with counts behind their numbers."""
    graphs, given = benchmark.graphs, benchmark.graphs.edges.get("edge_attr")
    columns = [] if given is None else [given.reshape(len(given), -1)]
    if given is not None and benchmark.edge_sizes is None:
        return graphs.with_values(edges={"edge_attr": torch.cat([*columns, counts.float()], dim=1)}), None
    attributes = torch.cat([*(column.long() for column in columns), counts.long()], dim=1)
    kinds = Kinds.find(attributes[training], benchmark.edge_sizes or ())
    return graphs.with_values(edges={"edge_attr": kinds.number(attributes)}), kinds
