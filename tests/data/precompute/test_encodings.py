"""Structural encodings of a benchmark, with edge types and scales fitted on the training graphs."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn.data import PackedGraphs
from dgn.data.benchmark import Benchmark, load_benchmark
from dgn.data.precompute.encodings import add_encodings, structural_encodings, with_encodings
from dgn.encodings import return_probabilities, ring_counts
from dgn.testing import complete, cycle, path

DATA = Path(__file__).parents[4] / "shared" / "data"
ZINC, MOLHIV = DATA / "zinc12k" / "zinc12k.npz", DATA / "molhiv" / "molhiv.npz"


def make(**changes: object) -> Benchmark:
    """A ring and a path for training, another ring for validation, a clique for test."""
    graphs = PackedGraphs.pack([cycle(5), path(3), cycle(5), complete(4)])
    graphs = graphs.with_values(
        nodes={"x": torch.zeros(graphs.num_nodes, dtype=torch.long)},
        edges={"edge_attr": torch.arange(graphs.num_edges) % 2},
        graphs={"split": torch.tensor([0, 0, 1, 2]), "y": torch.zeros(4)},
    )
    return replace(Benchmark("small", graphs, "regression", "mae", 1, (1,), (2,)), **changes)


def test_node_encodings_are_return_probabilities_then_ring_counts() -> None:
    graphs = with_encodings(make(), rwse_steps=3, ring_sizes=(3, 5)).graphs
    structure = graphs.nodes["structure"]
    assert torch.equal(structure[:, :3], return_probabilities(graphs.graph, 3))
    assert torch.equal(structure[:, 3:], ring_counts(graphs.graph, (3, 5)).nodes.float())


def test_chunks_do_not_change_the_encodings(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = structural_encodings(make().graphs, 3, (3, 5))
    monkeypatch.setattr("dgn.data.precompute.chunks.cut", lambda _: [(0, 1), (1, 3), (3, 4)])
    for actual, wanted in zip(structural_encodings(make().graphs, 3, (3, 5)), expected, strict=True):
        assert torch.equal(actual, wanted)


def test_cached_encodings_are_not_recomputed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = [(3, (3, 5)), (3, (3,)), (0, (3,)), (2, ())]
    uncached = [structural_encodings(make().graphs, *args) for args in settings]
    written = [structural_encodings(make().graphs, *args, tmp_path) for args in settings]
    assert len(list(tmp_path.iterdir())) == len(settings)
    monkeypatch.delattr("dgn.data.precompute.encodings._encode")
    for args, expected, first in zip(settings, uncached, written, strict=True):
        for nodes, edges in (first, structural_encodings(make().graphs, *args, tmp_path)):
            assert torch.equal(nodes, expected[0])
            assert edges is expected[1] is None or torch.equal(edges, expected[1])
    with pytest.raises(NameError):
        structural_encodings(make().graphs, 4, (), tmp_path)


def test_no_graphs_have_empty_encodings() -> None:
    nodes, edges = structural_encodings(PackedGraphs.pack([]), 2, (3,))
    assert nodes.shape == (0, 3)
    assert edges is not None
    assert edges.shape == (0, 1)


def test_encodings_accept_packed_graphs() -> None:
    graphs = make().graphs
    assert torch.equal(return_probabilities(graphs, 3), return_probabilities(graphs.graph, 3))
    assert torch.equal(ring_counts(graphs).edges, ring_counts(graphs.graph).edges)


def test_edge_types_are_those_of_the_training_graphs() -> None:
    encoded = with_encodings(make(), ring_sizes=(3, 5))
    assert encoded.structure is not None
    assert encoded.structure.edge_types is not None
    rows = encoded.structure.edge_types.attributes
    assert sorted(rows.tolist()) == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]
    edge_type, edge_attr = encoded.graphs.edges["edge_attr"], make().graphs.edges["edge_attr"]
    assert torch.equal(rows[edge_type][:, 0], edge_attr)  # also in the clique, whose triangles are unseen in training
    assert torch.equal(rows[edge_type][:10, 2], torch.ones(10, dtype=torch.long))


def test_other_edge_features_than_in_training_are_named() -> None:
    structure = with_encodings(make(), ring_sizes=(3, 5)).structure
    assert structure is not None
    without = replace(make().graphs, edges={})
    with pytest.raises(ValueError, match="edge_attr: expected 1 categories of each edge, as in training, got none"):
        add_encodings(without, structure)


def test_the_scale_is_that_of_the_training_graphs() -> None:
    encoded = with_encodings(make(), rwse_steps=4)
    structure = encoded.structure
    assert structure is not None
    values = encoded.graphs.nodes["structure"][:8]
    torch.testing.assert_close((values * structure.scale + structure.offset).mean(dim=0), torch.zeros(4))
    assert encoded.graphs.edges["edge_attr"] is not None
    assert structure.edge_types is None


def test_continuous_edge_features_get_columns_and_absent_ones_edge_types() -> None:
    benchmark = make(edge_categories=None)
    graphs = benchmark.graphs.with_values(edges={"edge_attr": torch.rand(benchmark.graphs.num_edges)})
    continuous = with_encodings(replace(benchmark, graphs=graphs), ring_sizes=(3, 5))
    assert continuous.graphs.edges["edge_attr"].shape == (graphs.num_edges, 3)
    assert continuous.structure is not None
    assert continuous.structure.edge_types is None
    bare = with_encodings(replace(benchmark, graphs=replace(graphs, edges={})), ring_sizes=(3, 5))
    assert bare.structure is not None
    assert bare.structure.edge_types is not None
    assert bare.structure.edge_types.attributes.tolist() == [[0, 1], [0, 0]]


def test_encodings_are_optional_and_not_added_twice() -> None:
    benchmark = make()
    assert with_encodings(benchmark) is benchmark
    with pytest.raises(
        ValueError, match="small: expected graphs without structural encodings, got random walks of 2 steps"
    ):
        with_encodings(with_encodings(benchmark, rwse_steps=2), rwse_steps=2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file", "edge_types", "changed"), [("zinc", ZINC, 45, 12), ("molhiv", MOLHIV, 64, 6400)]
)
def test_few_edge_types_suffice_for_molecules(name: str, file: Path, edge_types: int, changed: int) -> None:
    if not file.exists():
        pytest.skip(f"{file} is not at hand; it is not part of the repository")
    sizes = tuple(range(3, 9))
    before = load_benchmark(name, file)
    after = with_encodings(before, ring_sizes=sizes)
    assert after.structure is not None
    assert after.structure.edge_types is not None
    assert len(after.structure.edge_types) == edge_types
    rows = after.structure.edge_types.attributes[after.graphs.edges["edge_attr"]]
    bonds = before.graphs.edges["edge_attr"].reshape(len(rows), -1)
    expected = torch.cat([bonds, ring_counts(before.graphs.graph, sizes).edges], dim=1)
    assert int((rows != expected).any(dim=1).sum()) <= changed
