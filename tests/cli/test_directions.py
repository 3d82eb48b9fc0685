"""``dgn directions`` as it is called."""

import warnings
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from dgn.cli import make_app
from dgn.data import PackedGraphs, add_directions


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DGN_CACHE", str(tmp_path / "home"))
    monkeypatch.delenv("DGN_DEBUG", raising=False)
    return tmp_path / "home" / "directions"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    weight = torch.tensor([1.0, 1.0, 3.0, 3.0] * 3)
    graphs = PackedGraphs.pack([(path, 3), (path, 4), (path, 3)]).with_values(edges={"w": weight})
    graphs.save(tmp_path / "in.safetensors")
    return tmp_path / "in.safetensors"


def call(*args: object) -> Result:
    return CliRunner().invoke(make_app(), ["directions", *map(str, args)])


def test_directions_are_added_and_summarized(source: Path, tmp_path: Path, cache: Path) -> None:
    result = call(source, "--out", tmp_path / "out.safetensors", "-k", 1, "--normalization", "rw", "--workers", 2)
    assert result.exit_code == 0, result.output
    for row in (["graphs", "3"], ["connected", "components", "4"], ["0", "of", "1"]):
        assert " ".join(row) in " ".join(result.output.replace("│", " ").split())
    expected = add_directions(PackedGraphs.load(source), k=1, normalization="rw")
    assert PackedGraphs.load(tmp_path / "out.safetensors").checksum() == expected.checksum()
    assert len(list(cache.iterdir())) == 1
    again = call(source, "--out", tmp_path / "again.safetensors", "-k", 1, "--normalization", "rw", "-q")
    assert "1 of 1" in again.output
    assert (tmp_path / "again.safetensors").read_bytes() == (tmp_path / "out.safetensors").read_bytes()


def test_the_cache_folder_is_an_option(source: Path, tmp_path: Path, cache: Path) -> None:
    assert call(source, "-o", tmp_path / "a.safetensors", "--no-cache").exit_code == 0
    assert not cache.exists()
    assert call(source, "-o", tmp_path / "a.safetensors", "--cache", tmp_path / "other").exit_code == 0
    assert not cache.exists()
    assert len(list((tmp_path / "other").iterdir())) == 1


def test_the_edge_weight_is_an_option(source: Path, tmp_path: Path) -> None:
    assert call(source, "-o", tmp_path / "a.safetensors", "--edge-weight", "w").exit_code == 0
    expected = add_directions(PackedGraphs.load(source), edge_weight="w")
    assert PackedGraphs.load(tmp_path / "a.safetensors").checksum() == expected.checksum()


def test_failed_graphs_are_listed_and_the_others_written(source: Path, tmp_path: Path) -> None:
    graphs = PackedGraphs.load(source)
    weight = graphs.edges["w"].clone()
    weight[4] = torch.inf
    graphs.with_values(edges={"w": weight}).save(tmp_path / "bad.safetensors")
    result = call(tmp_path / "bad.safetensors", "-o", tmp_path / "out.safetensors", "--edge-weight", "w")
    assert result.exit_code == 1
    assert "graph 1: ValueError: edge_weight: expected finite numbers, got inf" in result.output
    assert "1 of 3 graphs could not be solved" in result.output
    written = PackedGraphs.load(tmp_path / "out.safetensors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert written.nodes["node_potential"][3:7].eq(0).all()
    assert written.nodes["node_potential"][:3].any()


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["none.safetensors", "-o", "out.safetensors"], 1, "Error: none.safetensors: expected a file of packed graphs"),
        (["none.csv", "-o", "out.safetensors"], 1, "Error: none.csv: expected a file called .safetensors"),
        (["none.npz", "-o", "out.txt"], 1, "Error: out.txt: expected a file called"),
        (["none.npz"], 2, "Missing option"),
        (["none.npz", "-o", "out.safetensors", "--normalization", "row"], 2, "row"),
        (["none.npz", "-o", "out.safetensors", "-k", "0"], 2, "greater than or equal to 1"),
    ],
)
def test_errors_are_one_line(args: list[str], code: int, message: str) -> None:
    result = call(*args)
    assert result.exit_code == code
    assert message in result.output
    assert "Traceback" not in result.output
    if code == 1:
        assert result.output.count("\n") == 1


def test_debug_propagates_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DGN_DEBUG", "1")
    assert isinstance(call("none.npz", "-o", "out.safetensors").exception, FileNotFoundError)


def test_a_folder_as_output_is_refused_before_the_work(source: Path, tmp_path: Path) -> None:
    (tmp_path / "out.safetensors").mkdir()
    failed = call(source, "-o", tmp_path / "out.safetensors", "--no-cache")
    assert failed.exit_code == 1
    assert "out.safetensors: expected a file to write, got a folder" in failed.output
    assert "directions" not in failed.output.split("Error:")[0]  # no progress bar
