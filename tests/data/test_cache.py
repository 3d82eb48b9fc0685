"""The cache: a key for everything that matters, and files that are never trusted."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import dgn
from dgn.data import PackedGraphs
from dgn.data import cache as module
from dgn.data.cache import Cache, chunk_key, solver_version
from dgn.data.chunks import Request, solve
from tests.data.conftest import random_graphs

GRAPHS = random_graphs(5)


def weighted(value: float) -> PackedGraphs:
    return GRAPHS.with_values(edges={"w": torch.full((GRAPHS.num_edges,), value)})


def moved_edge() -> PackedGraphs:
    index = GRAPHS.edge_index.clone()
    index[0, 0] = (index[0, 0] + 1) % 2
    return replace(GRAPHS, edge_index=index)


def isolated_node() -> PackedGraphs:
    pointer = GRAPHS.node_pointer.clone()
    pointer[-1] += 1
    return replace(GRAPHS, node_pointer=pointer)


def test_every_argument_and_all_content_is_in_the_key() -> None:
    asked = [(GRAPHS, Request(k, kind)) for k in (1, 2) for kind in (None, "rw", "sym")]  # type: ignore[arg-type]
    asked += [(weighted(1.0), Request(2, None, "w")), (weighted(2.0), Request(2, None, "w"))]
    asked += [(moved_edge(), Request()), (isolated_node(), Request()), (GRAPHS.select(torch.arange(4)), Request())]
    assert len({chunk_key(*each) for each in asked}) == len(asked)


def test_what_does_not_matter_is_not_in_the_key() -> None:
    key = chunk_key(GRAPHS, Request())
    assert chunk_key(GRAPHS.with_values(graphs={"y": torch.zeros(5)}), Request()) == key
    assert chunk_key(replace(GRAPHS, edge_index=GRAPHS.edge_index.to(torch.uint8)), Request()) == key
    other = weighted(1.0).with_values(edges={"v": torch.ones(GRAPHS.num_edges, dtype=torch.float64)})
    assert chunk_key(other, Request(2, None, "v")) == chunk_key(other, Request(2, None, "w"))


def test_the_solver_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(dgn.__file__).parent
    for name in module.SOURCES:
        shutil.copytree(source / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    fresh = solver_version.__wrapped__
    known = {fresh()}
    with monkeypatch.context() as patch:
        patch.setattr(module, "__file__", str(tmp_path / "data" / "cache.py"))
        assert fresh() in known
        changed = tmp_path / "spectral" / "sign.py"
        changed.write_text(changed.read_text() + "\n")
        known.add(fresh())
    with monkeypatch.context() as patch:
        patch.setattr(module, "SOLVER", module.SOLVER + 1)
        known.add(fresh())
    monkeypatch.setattr(module, "version", lambda _: "0")
    known.add(fresh())
    assert len(known) == 4


def test_what_is_written_comes_back_and_nothing_damaged_does(tmp_path: Path) -> None:
    store, key = Cache(tmp_path / "new"), chunk_key(GRAPHS, Request())
    assert store.read(key) is None
    found = solve(GRAPHS, Request())
    store.write(key, found)
    again = store.read(key)
    assert again is not None
    assert all(
        torch.equal(again.tensors()[name].nan_to_num(), value.nan_to_num()) for name, value in found.tensors().items()
    )
    whole = bytearray(store.path(key).read_bytes())
    for place in range(0, len(whole), 7):
        whole[place] ^= 0x10
        store.path(key).write_bytes(whole)
        assert store.read(key) is None
        whole[place] ^= 0x10
    store.path(key).write_bytes(whole[:-1])
    assert store.read(key) is None


def test_a_file_under_another_key_is_not_taken(tmp_path: Path) -> None:
    store = Cache(tmp_path)
    store.write("a", solve(GRAPHS, Request()))
    store.path("a").rename(store.path("b"))
    assert store.read("b") is None


def test_failures_are_not_kept(tmp_path: Path) -> None:
    found = solve(weighted(torch.nan), Request(2, None, "w"))
    assert found.failures
    Cache(tmp_path).write("a", found)
    assert not list(tmp_path.iterdir())
