"""Directions of a dataset: the same bytes however the work is done, whatever happens on the way."""

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


def test_what_is_added(chunked: PackedGraphs) -> None:
    added = add_directions(chunked, k=3)
    assert {name: value.dtype for name, value in added.nodes.items()} == {
        "potential": torch.float32,
        "component": torch.int16,
        "repeated": torch.bool,
        "gap": torch.float32,
    }
    assert added.nodes["potential"].shape == added.nodes["repeated"].shape == (chunked.num_nodes, 3)
    assert added.edges["field"].shape == (chunked.num_edges, 3)
    whole = dgn.directions(chunked.graph, k=3)
    assert torch.equal(added.nodes["repeated"], whole.repeated()[whole.component])
    torch.testing.assert_close(added.nodes["gap"], whole.gap[whole.component].float(), rtol=0, atol=0, equal_nan=True)
    one = added[int(added.node_pointer.diff().argmax())]
    found = dgn.directions(one.edge_index, one.num_nodes, k=3)
    assert torch.equal(one.component.long(), found.component)


def test_workers_and_chunks_do_not_change_a_byte(chunked: PackedGraphs, tmp_path: Path) -> None:
    checksums = {add_directions(chunked, workers=workers).checksum() for workers in (1, 2, 5)}
    checksums |= {add_directions(chunked, workers=workers, cache=tmp_path).checksum() for workers in (2, 1)}
    assert len(checksums) == 1
    assert len(list(tmp_path.iterdir())) == 10


def test_threads_are_given_back(chunked: PackedGraphs) -> None:
    before = torch.get_num_threads()
    add_directions(chunked, workers=2)
    assert torch.get_num_threads() == before


def test_only_missing_and_damaged_chunks_are_solved(
    chunked: PackedGraphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = add_directions(chunked, cache=tmp_path)
    one, other, *_ = sorted(tmp_path.iterdir())
    one.unlink()
    damaged = bytearray(other.read_bytes())
    damaged[-1] ^= 1
    other.write_bytes(damaged)
    solved = []
    monkeypatch.setattr(
        "dgn.data.precompute.local.solve", lambda *given, real=module.solve: solved.append(1) or real(*given)
    )
    assert add_directions(chunked, cache=tmp_path).checksum() == clean.checksum()
    assert len(solved) == 2
    assert add_directions(chunked, cache=tmp_path).checksum() == clean.checksum()
    assert len(solved) == 2


def test_the_summary_counts(chunked: PackedGraphs, tmp_path: Path) -> None:
    told: list[int] = []
    options = Options(cache=tmp_path)
    _, summary = find_directions(chunked, Request(2), options, told.append)
    whole = dgn.directions(chunked.graph, k=2)
    assert (summary.graphs, summary.components, summary.chunks, summary.cached) == (95, len(whole.eigenvalues), 10, 0)
    assert summary.repeated == int(whole.repeated()[:, 0].sum())
    assert summary.undecided == int((whole.eigenvalues.isfinite() & ~whole.sign_is_canonical).sum())
    assert sum(told) == 95
    again = find_directions(chunked, Request(2), options)[1]
    assert again.cached == 10
    both = summary + again
    assert (both.graphs, both.chunks, both.cached) == (190, 20, 10)


def test_failing_graphs_are_named(chunked: PackedGraphs) -> None:
    weight = torch.ones(chunked.num_edges)
    number = int(chunked.edge_pointer.diff().argmax())
    weight[chunked.edge_pointer[number]] = -1.0
    clean = add_directions(chunked)
    with pytest.warns(
        UserWarning, match=rf"1 of 95 graphs could not be solved .* graph {number}: ValueError: edge_weight"
    ):
        added = add_directions(chunked.with_values(edges={"edge_weight": weight}))
    mine = chunked.graph.batch == number
    assert not added.nodes["potential"][mine].any()
    assert torch.equal(added.nodes["potential"][~mine], clean.nodes["potential"][~mine])


def test_graphs_that_all_fail_are_an_error() -> None:
    pair = PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)] * 2).with_values(edges={"edge_weight": -torch.ones(2)})
    with pytest.raises(ValueError, match="directions: expected graphs that can be solved, got none; graph 0: ValueErr"):
        add_directions(pair)


def test_a_solver_that_breaks_down_costs_one_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(graph: dgn.Graph, *asked: Any) -> dgn.Directions:
        if 20 in graph.in_degree.tolist():
            raise ArithmeticError("did not converge")
        return directions_of_many(graph, *asked)

    star = torch.stack([torch.zeros(20, dtype=torch.long), torch.arange(1, 21)])
    star = torch.cat([star, star.flip(0)], dim=1)
    graphs = PackedGraphs.pack([(star[:, :2], 3), (star, 21), (star[:, 1:3], 4)])
    monkeypatch.setattr("dgn.data.precompute.chunks.directions_of_many", break_down)
    _, summary = find_directions(graphs, Request(), Options())
    assert summary.failures == {1: "ArithmeticError: did not converge"}


def test_large_counts_of_components_keep_their_numbers() -> None:
    alone = PackedGraphs.pack([(torch.zeros(2, 0, dtype=torch.long), 40_000)])
    assert add_directions(alone, k=1).nodes["component"].tolist() == list(range(40_000))


def test_no_graphs_and_empty_graphs() -> None:
    for graphs in (PackedGraphs.pack([]), PackedGraphs.pack([(torch.zeros(2, 0, dtype=torch.long), 0)])):
        added = add_directions(graphs, k=2)
        assert added.nodes["potential"].shape == added.edges["field"].shape == (0, 2)


def test_weights_are_found_by_name(small: PackedGraphs) -> None:
    plain = add_directions(small).nodes["potential"]
    weight = torch.tensor([1.0, 1.0, 9.0, 9.0, 1.0, 1.0])
    assert not torch.equal(add_directions(small.with_values(edges={"edge_weight": weight})).nodes["potential"], plain)
    named = small.with_values(edges={"strength": weight})
    assert torch.equal(add_directions(named).nodes["potential"], plain)
    assert not torch.equal(add_directions(named, edge_weight="strength").nodes["potential"], plain)
    with pytest.raises(ValueError, match="did you mean 'strength'"):
        add_directions(named, edge_weight="strenght")


def test_a_pyg_dataset_gets_what_the_transform_gives() -> None:
    graphs = random_graphs(12, seed=3)
    dataset = [graphs[number] for number in range(len(graphs))]
    added = add_directions(PackedGraphs.from_data(dataset), k=2, normalization="rw")
    for number, data in enumerate(dataset):
        alone = AddDirections(2, "rw")(Data(edge_index=data.edge_index, num_nodes=data.num_nodes))
        torch.testing.assert_close(added[number].potential.abs(), alone.potential.abs(), atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"k": 0}, "k: expected"),
        ({"engine": "rey"}, "did you mean 'ray'"),
        ({"workers": 0}, "workers: expected 1 or more"),
    ],
)
def test_wrong_requests_are_refused(small: PackedGraphs, asked: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        add_directions(small, **asked)  # type: ignore[arg-type]


SLOW = """
import sys, time
import dgn.data.precompute.chunks, dgn.data.precompute.local
from dgn.cli import main
dgn.data.precompute.chunks.GRAPHS, dgn.data.precompute.chunks.NODES = 10, 0
real, seconds = dgn.data.precompute.local.solve, float(sys.argv.pop(1))
dgn.data.precompute.local.solve = lambda *given: (time.sleep(seconds), real(*given))[1]
main()
"""


@pytest.mark.slow
def test_killed_and_started_again(chunked: PackedGraphs, tmp_path: Path) -> None:
    source, cache, out = tmp_path / "in.safetensors", tmp_path / "cache", tmp_path / "out.safetensors"
    chunked.save(source)
    command = ["directions", str(source), "--out", str(out), "--cache", str(cache), "--workers", "2", "-q"]
    running = subprocess.Popen([sys.executable, "-c", SLOW, "0.5", *command])
    while running.poll() is None and len(list(cache.glob("*.safetensors"))) < 3:
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    assert running.wait() == -signal.SIGKILL
    kept = len(list(cache.glob("*.safetensors")))
    assert 3 <= kept < 10
    assert not out.exists()
    subprocess.run([sys.executable, "-c", SLOW, "0", *command], check=True, capture_output=True)
    found, summary = find_directions(chunked, Request(), Options())
    with_directions(chunked, found, Request()).save(tmp_path / "expected.safetensors")
    assert summary.cached == 0
    assert out.read_bytes() == (tmp_path / "expected.safetensors").read_bytes()
