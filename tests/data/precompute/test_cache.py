"""The cache: a key for everything that matters, and files that are never trusted."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import dgn
from dgn.data import PackedGraphs
from dgn.data.precompute import cache as module
from dgn.data.precompute import directions, encodings
from dgn.data.precompute.cache import Cache, code_version
from dgn.data.precompute.chunks import Request, solve
from dgn.data.precompute.directions import KEPT, Options, chunk_key, find_directions
from tests.data.conftest import random_graphs

GRAPHS = random_graphs(5)
STORE = Cache(Path("nowhere"), KEPT)


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
    assert len({chunk_key(STORE, *each) for each in asked}) == len(asked)


def test_what_does_not_matter_is_not_in_the_key() -> None:
    key = chunk_key(STORE, GRAPHS, Request())
    assert chunk_key(STORE, GRAPHS.with_values(graphs={"y": torch.zeros(5)}), Request()) == key
    assert chunk_key(STORE, replace(GRAPHS, edge_index=GRAPHS.edge_index.to(torch.uint8)), Request()) == key
    other = weighted(1.0).with_values(edges={"v": torch.ones(GRAPHS.num_edges, dtype=torch.float64)})
    assert chunk_key(STORE, other, Request(2, None, "v")) == chunk_key(STORE, other, Request(2, None, "w"))


def test_the_solver_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(dgn.__file__).parent
    for name in KEPT.sources:
        shutil.copytree(source / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    fresh = code_version.__wrapped__
    known = {fresh(KEPT)}
    with monkeypatch.context() as patch:
        patch.setattr(dgn, "__file__", str(tmp_path / "__init__.py"))
        assert fresh(KEPT) in known
        changed = tmp_path / "spectral" / "sign.py"
        changed.write_text(changed.read_text() + "\n")
        known.add(fresh(KEPT))
    known |= {fresh(replace(KEPT, revision=2)), fresh(replace(KEPT, format="other")), fresh(replace(KEPT, sources=()))}
    monkeypatch.setattr(module, "version", lambda _: "0")
    known.add(fresh(KEPT))
    assert len(known) == 6


def test_what_is_written_comes_back_and_nothing_damaged_does(tmp_path: Path) -> None:
    store, key = Cache(tmp_path / "new", KEPT), chunk_key(STORE, GRAPHS, Request())
    assert store.read(key) is None
    found = solve(GRAPHS, Request()).tensors()
    store.write(key, found)
    again = store.read(key)
    assert again is not None
    assert all(torch.equal(again[name].nan_to_num(), value.nan_to_num()) for name, value in found.items())
    whole = bytearray(store.path(key).read_bytes())
    for place in range(0, len(whole), 7):
        whole[place] ^= 0x10
        store.path(key).write_bytes(whole)
        assert store.read(key) is None
        whole[place] ^= 0x10
    store.path(key).write_bytes(whole[:-1])
    assert store.read(key) is None


def test_a_file_under_another_key_is_not_taken(tmp_path: Path) -> None:
    store = Cache(tmp_path, KEPT)
    store.write("a", {"nodes": torch.zeros(2)})
    store.path("a").rename(store.path("b"))
    assert store.read("b") is None


def test_failures_are_not_kept(tmp_path: Path) -> None:
    found, _ = find_directions(weighted(torch.nan), Request(2, None, "w"), Options(tmp_path))
    assert found.failures
    assert not list(tmp_path.iterdir())


def test_sources_of_a_cache_exist() -> None:
    """The key of a result holds the code that computes it: a folder that moved would silently leave it out."""
    package = Path(dgn.__file__).parent
    kinds = [directions.KEPT, encodings.KEPT] if hasattr(directions, "KEPT") else [directions.KIND, encodings.KIND]
    for kind in kinds:
        assert all(any((package / name).rglob("*.py")) for name in kind.sources), kind
