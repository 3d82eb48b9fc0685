"""Structural numbers of a benchmark: of all graphs, with kinds and scales of the training graphs."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from dgn.data import PackedGraphs
from dgn.data.benchmark import Benchmark, load_benchmark
from dgn.data.precompute.encodings import structural_encodings, with_encodings
from dgn.encodings import return_probabilities, ring_counts
from dgn.testing import complete, cycle, path

DATA = Path(__file__).parents[3] / "shared" / "data"
ZINC, MOLHIV = DATA / "zinc12k" / "zinc12k.npz", DATA / "molhiv" / "molhiv.npz"


def make(**changes: object) -> Benchmark:
    """A ring and a path to train on, another ring for validation, a clique as test."""
    graphs = PackedGraphs.pack([cycle(5), path(3), cycle(5), complete(4)])
    graphs = graphs.with_values(
        nodes={"x": torch.zeros(graphs.num_nodes, dtype=torch.long)},
        edges={"edge_attr": torch.arange(graphs.num_edges) % 2},
        graphs={"split": torch.tensor([0, 0, 1, 2]), "y": torch.zeros(4)},
    )
    return replace(Benchmark("small", graphs, "regression", "mae", 1, (1,), (2,)), **changes)


def test_nodes_get_all_numbers_side_by_side() -> None:
    found = with_encodings(make(), random_walk=3, rings=(3, 5)).graphs
    whole = found.graph
    assert torch.equal(found.nodes["structure"][:, :3], return_probabilities(whole, 3))
    assert torch.equal(found.nodes["structure"][:, 3:], ring_counts(whole, (3, 5)).nodes.float())


def test_chunks_of_graphs_give_what_all_of_them_give(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = structural_encodings(make().graphs, 3, (3, 5))
    monkeypatch.setattr("dgn.data.precompute.chunks.cut", lambda _: [(0, 1), (1, 3), (3, 4)])
    for one, other in zip(structural_encodings(make().graphs, 3, (3, 5)), whole, strict=True):
        assert torch.equal(one, other)


def test_what_was_kept_is_not_computed_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [(3, (3, 5)), (3, (3,)), (0, (3,)), (2, ())]
    found = [structural_encodings(make().graphs, *each) for each in asked]
    first = [structural_encodings(make().graphs, *each, tmp_path) for each in asked]
    assert len(list(tmp_path.iterdir())) == len(asked)
    monkeypatch.delattr("dgn.data.precompute.encodings._numbers_of")
    for each, *answers in zip(asked, found, first, strict=True):
        for nodes, edges in (*answers, structural_encodings(make().graphs, *each, tmp_path)):
            assert torch.equal(nodes, answers[0][0])
            assert edges is answers[0][1] is None or torch.equal(edges, answers[0][1])
    with pytest.raises(NameError):
        structural_encodings(make().graphs, 4, (), tmp_path)


def test_no_graphs_have_no_numbers() -> None:
    nodes, edges = structural_encodings(PackedGraphs.pack([]), 2, (3,))
    assert nodes.shape == (0, 3)
    assert edges is not None
    assert edges.shape == (0, 1)


def test_packed_graphs_are_taken_side_by_side() -> None:
    graphs = make().graphs
    assert torch.equal(return_probabilities(graphs, 3), return_probabilities(graphs.graph, 3))
    assert torch.equal(ring_counts(graphs).edges, ring_counts(graphs.graph).edges)


def test_kinds_are_those_of_the_training_graphs() -> None:
    found = with_encodings(make(), rings=(3, 5))
    assert found.structure is not None
    assert found.structure.kinds is not None
    rows = found.structure.kinds.attributes
    assert sorted(rows.tolist()) == [[0, 0, 0], [0, 0, 1], [1, 0, 0], [1, 0, 1]]
    kind, given = found.graphs.edges["edge_attr"], make().graphs.edges["edge_attr"]
    assert torch.equal(rows[kind][:, 0], given)  # edges of the clique too, whose triangles nobody had seen
    assert torch.equal(rows[kind][:10, 2], torch.ones(10, dtype=torch.long))


def test_the_scale_is_that_of_the_training_graphs() -> None:
    found = with_encodings(make(), random_walk=4)
    assert found.structure is not None
    values = found.graphs.nodes["structure"][:8]
    torch.testing.assert_close((values * found.structure.scale + found.structure.offset).mean(dim=0), torch.zeros(4))
    assert found.graphs.edges["edge_attr"] is not None
    assert found.structure.kinds is None


def test_edges_with_numbers_get_more_of_them_and_edges_without_features_get_kinds() -> None:
    benchmark = make(edge_categories=None)
    numbers = benchmark.graphs.with_values(edges={"edge_attr": torch.rand(benchmark.graphs.num_edges)})
    found = with_encodings(replace(benchmark, graphs=numbers), rings=(3, 5))
    assert found.graphs.edges["edge_attr"].shape == (numbers.num_edges, 3)
    assert found.structure is not None
    assert found.structure.kinds is None
    bare = with_encodings(replace(benchmark, graphs=replace(numbers, edges={})), rings=(3, 5))
    assert bare.structure is not None
    assert bare.structure.kinds is not None
    assert bare.structure.kinds.attributes.tolist() == [[0, 1], [0, 0]]


def test_nothing_is_added_unless_asked_for_and_nothing_twice() -> None:
    benchmark = make()
    assert with_encodings(benchmark) is benchmark
    with pytest.raises(ValueError, match="small: expected graphs without structural numbers, got some with 2 steps"):
        with_encodings(with_encodings(benchmark, random_walk=2), random_walk=2)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "file", "kinds", "changed"), [("zinc", ZINC, 45, 12), ("molhiv", MOLHIV, 64, 6400)])
def test_few_kinds_suffice_for_molecules(name: str, file: Path, kinds: int, changed: int) -> None:
    if not file.exists():
        pytest.skip(f"{file} is not at hand; it is not part of the repository")
    sizes = tuple(range(3, 9))
    before = load_benchmark(name, file)
    after = with_encodings(before, rings=sizes)
    assert after.structure is not None
    assert after.structure.kinds is not None
    assert len(after.structure.kinds) == kinds
    rows = after.structure.kinds.attributes[after.graphs.edges["edge_attr"]]
    given = before.graphs.edges["edge_attr"].reshape(len(rows), -1)
    wanted = torch.cat([given, ring_counts(before.graphs.graph, sizes).edges], dim=1)
    assert int((rows != wanted).any(dim=1).sum()) <= changed
