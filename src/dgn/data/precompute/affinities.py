"""Affinities of all edges of a benchmark."""

from dataclasses import replace

import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.chunks import by_chunks
from dgn.data.precompute.encodings import with_edge_numbers
from dgn.encodings import Affinities, edge_affinities
from dgn.graph.columns import as_columns


def with_affinities(benchmark: Benchmark, steps: int) -> Benchmark:
    """The benchmark with affinities of ``steps`` steps as numbers of its edges, behind those that they have.

    Edges with categories or rings are refused: these are kinds, and have no place for numbers.
    ``benchmark.affinities`` says how they are scaled: by the training graphs alone.

    >>> from dgn.data.benchmark import load_benchmark
    >>> digits = with_affinities(load_benchmark("digits"), steps=2)
    >>> digits.graphs.edges["edge_attr"].shape, digits.affinities.scale.shape
    (torch.Size([402528, 2]), torch.Size([2]))
    """
    if not steps:
        return benchmark
    graphs, given = benchmark.graphs, benchmark.graphs.edges.get("edge_attr")
    if benchmark.edge_sizes is not None or (benchmark.structure is not None and benchmark.structure.rings):
        raise ValueError(
            f"{benchmark.name}: expected edges without features or with numbers, for affinities to stand behind, got "
            "edges with categories or rings; leave out data.edge_walk or data.rings"
        )
    if benchmark.affinities is not None:
        raise ValueError(
            f"{benchmark.name}: expected graphs without affinities, got some with {benchmark.affinities.steps} steps; "
            "load them anew"
        )
    values, training = affinities_of(graphs, steps), graphs.graphs["split"] == 0  # others decide nothing
    seen = values[training.repeat_interleave(graphs.edge_pointer.diff())]
    found = Affinities.find(seen, 0 if given is None else as_columns(given).size(1))
    return replace(benchmark, graphs=with_edge_numbers(graphs, values), affinities=found)


def add_affinities(graphs: PackedGraphs, affinities: Affinities) -> PackedGraphs:
    """Other graphs with the affinities that those of a benchmark have.

    Graphs whose edges have as many columns as with affinities are taken to have them, and stay as they are.
    """
    given = graphs.edges.get("edge_attr")
    if given is not None and as_columns(given).size(1) == len(affinities.scale):
        return graphs
    return with_edge_numbers(graphs, affinities_of(graphs, affinities.steps))


def affinities_of(graphs: PackedGraphs, steps: int) -> Tensor:
    """The affinities of all edges, [E, steps]."""
    return torch.cat(by_chunks(lambda some: edge_affinities(some, steps), graphs))
