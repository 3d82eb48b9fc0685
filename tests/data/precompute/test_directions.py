"""Directions of a dataset: bitwise identical for any workers, chunks, cache and interruption."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

import dgn
from dgn.data import PackedGraphs, add_directions
from dgn.data.precompute import directions as module
from dgn.data.precompute.chunks import Request
from dgn.data.precompute.directions import Options, find_directions, with_directions
from dgn.spectral.potentials import directions_of_many
from dgn.transforms import AddDirections
from tests.data.conftest import random_graphs


@pytest.fixture
def chunked(monkeypatch: pytest.MonkeyPatch) -> PackedGraphs:
    """Graphs in ten chunks."""
    monkeypatch.setattr("dgn.data.precompute.chunks.GRAPHS", 10)
    monkeypatch.setattr("dgn.data.precompute.chunks.NODES", 0)
    return random_graphs(95)


def test_names_dtypes_and_shapes_of_the_added_tensors(chunked: PackedGraphs) -> None:
    added = add_directions(chunked, k=3)
    assert {name: value.dtype for name, value in added.nodes.items()} == {
        "node_potential": torch.float32,
        "component": torch.int16,
        "repeated": torch.bool,
        "gap": torch.float32,
    }
    assert added.nodes["node_potential"].shape == added.nodes["repeated"].shape == (chunked.num_nodes, 3)
    assert added.edges["edge_field"].shape == (chunked.num_edges, 3)
    expected = dgn.directions(chunked.graph, k=3)
    assert torch.equal(added.nodes["repeated"], expected.repeated()[expected.component])
    gap = expected.gap[expected.component].float()
    torch.testing.assert_close(added.nodes["gap"], gap, rtol=0, atol=0, equal_nan=True)
    largest = added[int(added.node_pointer.diff().argmax())]
    single = dgn.directions(largest.edge_index, largest.num_nodes, k=3)
    assert torch.equal(largest.component.long(), single.component)


def test_workers_and_chunks_do_not_change_a_byte(chunked: PackedGraphs, tmp_path: Path) -> None:
    checksums = {add_directions(chunked, workers=workers).checksum() for workers in (1, 2, 5)}
    checksums |= {add_directions(chunked, workers=workers, cache=tmp_path).checksum() for workers in (2, 1)}
    assert len(checksums) == 1
    assert len(list(tmp_path.iterdir())) == 10


def test_the_number_of_threads_is_restored(chunked: PackedGraphs) -> None:
    before = torch.get_num_threads()
    add_directions(chunked, workers=2)
    assert torch.get_num_threads() == before


def test_only_missing_and_corrupt_chunks_are_solved(
    chunked: PackedGraphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = add_directions(chunked, cache=tmp_path)
    first, second, *_ = sorted(tmp_path.iterdir())
    first.unlink()
    corrupt = bytearray(second.read_bytes())
    corrupt[-1] ^= 1
    second.write_bytes(corrupt)
    solved = []
    monkeypatch.setattr(
        "dgn.data.precompute.local.solve", lambda *args, real=module.solve: solved.append(1) or real(*args)
    )
    assert add_directions(chunked, cache=tmp_path).checksum() == clean.checksum()
    assert len(solved) == 2
    assert add_directions(chunked, cache=tmp_path).checksum() == clean.checksum()
    assert len(solved) == 2


def test_the_summary_counts_graphs_components_and_chunks(chunked: PackedGraphs, tmp_path: Path) -> None:
    advanced: list[int] = []
    options = Options(cache=tmp_path)
    _, summary = find_directions(chunked, Request(2), options, advanced.append)
    expected = dgn.directions(chunked.graph, k=2)
    components = len(expected.eigenvalues)
    assert (summary.graphs, summary.components, summary.chunks, summary.cached) == (95, components, 10, 0)
    assert summary.repeated == int(expected.repeated()[:, 0].sum())
    assert summary.undecided == int((expected.eigenvalues.isfinite() & ~expected.sign_is_canonical).sum())
    assert sum(advanced) == 95
    again = find_directions(chunked, Request(2), options)[1]
    assert again.cached == 10
    both = summary + again
    assert (both.graphs, both.chunks, both.cached) == (190, 20, 10)


def test_failing_graphs_are_named(chunked: PackedGraphs) -> None:
    weight = torch.ones(chunked.num_edges)
    bad = int(chunked.edge_pointer.diff().argmax())
    weight[chunked.edge_pointer[bad]] = -1.0
    clean = add_directions(chunked)
    with pytest.warns(
        UserWarning, match=rf"1 of 95 graphs could not be solved .* graph {bad}: ValueError: edge_weight"
    ):
        added = add_directions(chunked.with_values(edges={"edge_weight": weight}))
    failed = chunked.graph.batch == bad
    assert not added.nodes["node_potential"][failed].any()
    assert torch.equal(added.nodes["node_potential"][~failed], clean.nodes["node_potential"][~failed])


def test_graphs_that_all_fail_are_an_error() -> None:
    pair = PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)] * 2).with_values(edges={"edge_weight": -torch.ones(2)})
    with pytest.raises(ValueError, match="directions: expected graphs that can be solved, got none; graph 0: ValueErr"):
        add_directions(pair)


def test_a_solver_that_breaks_down_costs_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(graph: dgn.Graph, *args: Any) -> dgn.Directions:
        if 20 in graph.in_degree.tolist():
            raise ArithmeticError("did not converge")
        return directions_of_many(graph, *args)

    star = torch.stack([torch.zeros(20, dtype=torch.long), torch.arange(1, 21)])
    star = torch.cat([star, star.flip(0)], dim=1)
    graphs = PackedGraphs.pack([(star[:, :2], 3), (star, 21), (star[:, 1:3], 4)])
    monkeypatch.setattr("dgn.data.precompute.chunks.directions_of_many", break_down)
    _, summary = find_directions(graphs, Request(), Options())
    assert summary.failures == {1: "ArithmeticError: did not converge"}


def test_many_components_keep_their_indices() -> None:
    isolated = PackedGraphs.pack([(torch.zeros(2, 0, dtype=torch.long), 40_000)])
    assert add_directions(isolated, k=1).nodes["component"].tolist() == list(range(40_000))


def test_no_graphs_and_empty_graphs() -> None:
    for graphs in (PackedGraphs.pack([]), PackedGraphs.pack([(torch.zeros(2, 0, dtype=torch.long), 0)])):
        added = add_directions(graphs, k=2)
        assert added.nodes["node_potential"].shape == added.edges["edge_field"].shape == (0, 2)


def test_weights_are_selected_by_name(small: PackedGraphs) -> None:
    plain = add_directions(small).nodes["node_potential"]
    weight = torch.tensor([1.0, 1.0, 9.0, 9.0, 1.0, 1.0])
    assert not torch.equal(
        add_directions(small.with_values(edges={"edge_weight": weight})).nodes["node_potential"], plain
    )
    named = small.with_values(edges={"strength": weight})
    assert torch.equal(add_directions(named).nodes["node_potential"], plain)
    assert not torch.equal(add_directions(named, edge_weight="strength").nodes["node_potential"], plain)
    with pytest.raises(ValueError, match="did you mean 'strength'"):
        add_directions(named, edge_weight="strenght")


def test_directions_of_a_dataset_equal_those_of_the_transform() -> None:
    graphs = random_graphs(12, seed=3)
    dataset = [graphs[index] for index in range(len(graphs))]
    added = add_directions(PackedGraphs.from_data(dataset), k=2, normalization="rw")
    for index, data in enumerate(dataset):
        single = AddDirections(2, "rw")(Data(edge_index=data.edge_index, num_nodes=data.num_nodes))
        torch.testing.assert_close(added[index].node_potential.abs(), single.node_potential.abs(), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("args", "error"),
    [
        ({"k": 0}, "k: expected"),
        ({"engine": "rey"}, "did you mean 'ray'"),
        ({"workers": 0}, "workers: expected 1 or more"),
    ],
)
def test_invalid_arguments_are_refused(small: PackedGraphs, args: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        add_directions(small, **args)  # type: ignore[arg-type]


SLOW = """
import sys, time
import dgn.data.precompute.chunks, dgn.data.precompute.local
from dgn.cli import main
dgn.data.precompute.chunks.GRAPHS, dgn.data.precompute.chunks.NODES = 10, 0
real, seconds = dgn.data.precompute.local.solve, float(sys.argv.pop(1))
dgn.data.precompute.local.solve = lambda *args: (time.sleep(seconds), real(*args))[1]
main()
"""


@pytest.mark.slow
def test_a_killed_run_resumes_bitwise_identically(chunked: PackedGraphs, tmp_path: Path) -> None:
    source, cache, out = tmp_path / "in.safetensors", tmp_path / "cache", tmp_path / "out.safetensors"
    chunked.save(source)
    command = ["directions", str(source), "--out", str(out), "--cache", str(cache), "--workers", "2", "-q"]
    running = subprocess.Popen([sys.executable, "-c", SLOW, "0.5", *command])
    while running.poll() is None and len(list(cache.glob("*.safetensors"))) < 3:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    cached = len(list(cache.glob("*.safetensors")))
    assert 3 <= cached < 10
    assert not out.exists()
    subprocess.run([sys.executable, "-c", SLOW, "0", *command], check=True, capture_output=True)
    directions, summary = find_directions(chunked, Request(), Options())
    with_directions(chunked, directions, Request()).save(tmp_path / "expected.safetensors")
    assert summary.cached == 0
    assert out.read_bytes() == (tmp_path / "expected.safetensors").read_bytes()
