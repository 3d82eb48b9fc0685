"""The cache: a key of everything that determines a result, and files that are verified on every read."""

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
from dgn.data.precompute.directions import CACHE_FORMAT, Options, chunk_key, find_directions
from tests.data.conftest import random_graphs

GRAPHS = random_graphs(5)
CACHE = Cache(Path("nowhere"), CACHE_FORMAT)


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


def test_every_argument_and_all_graphs_are_in_the_key() -> None:
    args = [(GRAPHS, Request(k, norm)) for k in (1, 2) for norm in (None, "rw", "sym")]  # type: ignore[arg-type]
    args += [(weighted(1.0), Request(2, None, "w")), (weighted(2.0), Request(2, None, "w"))]
    args += [(moved_edge(), Request()), (isolated_node(), Request()), (GRAPHS.select(torch.arange(4)), Request())]
    assert len({chunk_key(CACHE, *pair) for pair in args}) == len(args)


def test_names_dtypes_and_targets_are_not_in_the_key() -> None:
    key = chunk_key(CACHE, GRAPHS, Request())
    assert chunk_key(CACHE, GRAPHS.with_values(graphs={"y": torch.zeros(5)}), Request()) == key
    assert chunk_key(CACHE, replace(GRAPHS, edge_index=GRAPHS.edge_index.to(torch.uint8)), Request()) == key
    other = weighted(1.0).with_values(edges={"v": torch.ones(GRAPHS.num_edges, dtype=torch.float64)})
    assert chunk_key(CACHE, other, Request(2, None, "v")) == chunk_key(CACHE, other, Request(2, None, "w"))


def test_the_code_of_the_solver_is_in_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(dgn.__file__).parent
    for name in CACHE_FORMAT.sources:
        shutil.copytree(source / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    fresh = code_version.__wrapped__
    versions = {fresh(CACHE_FORMAT)}
    with monkeypatch.context() as patch:
        patch.setattr(dgn, "__file__", str(tmp_path / "__init__.py"))
        assert fresh(CACHE_FORMAT) in versions
        changed = tmp_path / "spectral" / "sign.py"
        changed.write_text(changed.read_text() + "\n")
        versions.add(fresh(CACHE_FORMAT))
    versions |= {
        fresh(replace(CACHE_FORMAT, revision=2)),
        fresh(replace(CACHE_FORMAT, name="other")),
        fresh(replace(CACHE_FORMAT, sources=())),
    }
    monkeypatch.setattr(module, "version", lambda _: "0")
    versions.add(fresh(CACHE_FORMAT))
    assert len(versions) == 6


def test_results_round_trip_and_corrupt_files_are_not_read(tmp_path: Path) -> None:
    cache, key = Cache(tmp_path / "new", CACHE_FORMAT), chunk_key(CACHE, GRAPHS, Request())
    assert cache.read(key) is None
    tensors = solve(GRAPHS, Request()).tensors()
    cache.write(key, tensors)
    again = cache.read(key)
    assert again is not None
    assert all(torch.equal(again[name].nan_to_num(), value.nan_to_num()) for name, value in tensors.items())
    content = bytearray(cache.path(key).read_bytes())
    for byte in range(0, len(content), 7):
        content[byte] ^= 0x10
        cache.path(key).write_bytes(content)
        assert cache.read(key) is None
        content[byte] ^= 0x10
    cache.path(key).write_bytes(content[:-1])
    assert cache.read(key) is None


def test_a_file_renamed_to_another_key_is_not_read(tmp_path: Path) -> None:
    cache = Cache(tmp_path, CACHE_FORMAT)
    cache.write("a", {"nodes": torch.zeros(2)})
    cache.path("a").rename(cache.path("b"))
    assert cache.read("b") is None


def test_failures_are_not_cached(tmp_path: Path) -> None:
    directions, _ = find_directions(weighted(torch.nan), Request(2, None, "w"), Options(tmp_path))
    assert directions.failures
    assert not list(tmp_path.iterdir())


def test_sources_of_a_cache_exist() -> None:
    """The key of a result holds the code that computes it: a folder that moved would silently leave it out."""
    package = Path(dgn.__file__).parent
    for cache_format in (directions.CACHE_FORMAT, encodings.CACHE_FORMAT):
        assert all(any((package / name).rglob("*.py")) for name in cache_format.sources), cache_format


def test_a_cache_that_cannot_be_written_warns_and_computes(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    expected, _ = find_directions(GRAPHS, Request(), Options())
    with pytest.warns(UserWarning, match=r"file: expected a cache that can be written, got .*used, but not kept"):
        solved, summary = find_directions(GRAPHS, Request(), Options(cache=tmp_path / "file"))
    assert torch.equal(solved.potential, expected.potential)
    assert summary.cached == 0


def test_a_folder_in_the_place_of_a_cached_file_is_reported(tmp_path: Path) -> None:
    cache = Cache(tmp_path, CACHE_FORMAT)
    cache.path("key").mkdir()
    assert cache.read("key") is None
    with pytest.warns(UserWarning, match="expected a cache that can be written"):
        cache.write("key", {"a": torch.zeros(1)})


def test_a_full_disk_does_not_end_the_computation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("dgn.data.io.files.save_file", full)
    with pytest.warns(UserWarning, match="got No space left on device"):
        find_directions(GRAPHS, Request(), Options(cache=tmp_path))
    assert not list(tmp_path.iterdir())
