"""Structural numbers as potentials."""

from dataclasses import replace

import pytest
import torch

from dgn import gradient
from dgn.data import PackedGraphs, add_directions
from dgn.data.benchmark import Benchmark
from dgn.data.precompute.encodings import with_structure
from dgn.data.precompute.structure_field import with_structure_field
from dgn.testing import cycle, path

#: A square with a tail.
LOLLIPOP = torch.tensor([[0, 1, 2, 3, 3, 4], [1, 2, 3, 0, 4, 5]])


def make() -> Benchmark:
    graphs = PackedGraphs.pack([(torch.cat([LOLLIPOP, LOLLIPOP.flip(0)], dim=1), 6), cycle(3), path(2)])
    graphs = graphs.with_values(
        nodes={"x": torch.zeros(graphs.num_nodes, dtype=torch.long)}, graphs={"split": torch.tensor([0, 1, 2])}
    )
    return with_structure(Benchmark("small", graphs, "regression", "mae", 1, (1,), None), random_walk=5, rings=(4, 3))


def test_rings_lead_into_them() -> None:
    graphs = with_structure_field(make(), "rings", k=2).graphs
    ends = graphs.graph.edge_index.T.tolist()
    along = {tuple(edge): float(value) for edge, value in zip(ends, graphs.edges["field"][:, 0], strict=True)}
    assert along.pop((3, 4)) == -along.pop((4, 3)) != 0  # between the square and its tail, and nowhere else
    assert not any(along.values())
    assert not graphs.edges["field"][:, 1].any()  # all nodes of a triangle are in it


def test_walks_lead_to_where_they_are_back_sooner() -> None:
    benchmark = make()
    graphs = with_structure_field(benchmark, "random_walk", k=2).graphs
    wanted = benchmark.graphs.nodes["structure"][:, [1, 3]]
    assert torch.equal(graphs.nodes["potential"], wanted)
    assert torch.equal(graphs.edges["field"], gradient(wanted, graphs.graph))


def test_what_belonged_to_eigenvectors_is_gone() -> None:
    benchmark = make()
    spectral = replace(benchmark, graphs=add_directions(benchmark.graphs, k=1))
    found = with_structure_field(spectral, "rings", k=1)
    assert "gap" in spectral.graphs.nodes
    assert not {"gap", "component", "repeated"} & set(found.graphs.nodes)
    assert found.field == "rings"
    assert with_structure_field(spectral, "eigenvectors", k=1) is spectral


def test_missing_numbers_are_named() -> None:
    bare = replace(make(), structure=None)
    with pytest.raises(ValueError, match=r"expected 1 directions from rings, got numbers for 0; set data.rings to 1"):
        with_structure_field(bare, "rings", k=1)
    with pytest.raises(ValueError, match=r"from random_walk, got numbers for 2; set data.random_walk=6 or more"):
        with_structure_field(make(), "random_walk", k=3)
    with pytest.raises(ValueError, match="did you mean 'rings'"):
        with_structure_field(make(), "ring", k=1)  # type: ignore[arg-type]
