"""Affinities as features of the edges of a benchmark."""

from dataclasses import replace

import pytest
import torch

from dgn.data.benchmark import Benchmark
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.affinities import affinities_of, with_affinities
from dgn.data.precompute.encodings import with_structure
from dgn.encodings import edge_affinities
from dgn.testing import complete, cycle, grid, path

GRAPHS = [path(4), complete(5), cycle(5), path(1), grid(2, 3)]


def make(**edges: torch.Tensor) -> Benchmark:
    sizes = torch.tensor([nodes for _, nodes in GRAPHS])
    counts = torch.tensor([ends.size(1) for ends, _ in GRAPHS])
    pointers = [torch.cat([torch.zeros(1).long(), count.cumsum(0)]) for count in (sizes, counts)]
    split = {"split": torch.tensor([0, 0, 1, 2, 0]), "y": torch.zeros(5)}
    graphs = PackedGraphs(*pointers, torch.cat([ends for ends, _ in GRAPHS], dim=1), edges=edges, graphs=split)
    graphs = graphs.with_values(nodes={"x": torch.zeros(graphs.num_nodes, 1).long()})
    return Benchmark("small", graphs, "regression", "mae", 1, (1,), None)


def test_edges_get_what_each_graph_gives_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = torch.cat([edge_affinities(*graph[:1], 3, graph[1]) for graph in GRAPHS])
    monkeypatch.setattr("dgn.data.precompute.chunks.GRAPHS", 2)
    monkeypatch.setattr("dgn.data.precompute.chunks.NODES", 2)
    torch.testing.assert_close(affinities_of(make().graphs, 3), alone)
    assert torch.equal(with_affinities(make(), 3).graphs.edges["edge_attr"], affinities_of(make().graphs, 3))


def test_training_edges_alone_decide_the_scale() -> None:
    found = with_affinities(make(), 2)
    assert found.affinities is not None
    values = found.graphs.edges["edge_attr"]
    split = found.graphs.graphs["split"].repeat_interleave(found.graphs.edge_pointer.diff())
    scaled = (values * found.affinities.scale + found.affinities.offset)[split == 0]
    torch.testing.assert_close(scaled.mean(dim=0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled.std(dim=0, correction=0), torch.ones(2))


def test_numbers_stay_in_front_as_they_are() -> None:
    length = torch.rand(make().graphs.num_edges)
    found = with_affinities(make(edge_attr=length), 2)
    assert found.affinities is not None
    assert torch.equal(found.graphs.edges["edge_attr"][:, 0], length)
    assert found.graphs.edges["edge_attr"].shape == (len(length), 3)
    assert (found.affinities.scale[0], found.affinities.offset[0]) == (1, 0)
    assert with_affinities(found, 0) is found


def test_edges_without_a_place_for_numbers_are_refused() -> None:
    bonds = replace(make(edge_attr=torch.zeros(make().graphs.num_edges).long()), edge_sizes=(1,))
    for refused in (bonds, with_structure(make(), rings=(3,))):
        with pytest.raises(ValueError, match=r"small: expected edges without features or with numbers"):
            with_affinities(refused, 2)
    with pytest.raises(ValueError, match="expected graphs without affinities, got some with 3 steps"):
        with_affinities(with_affinities(make(), 3), 2)
    with pytest.raises(ValueError, match="small: expected edges without affinities for rings"):
        with_structure(with_affinities(make(), 3), rings=(3,))
