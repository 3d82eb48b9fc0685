"""A handful of the faults that benchmarks/reliability/faults.py injects by the hundred."""

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dgn.data import PackedGraphs

for package in ("rdkit", "pyarrow", "optuna"):
    pytest.importorskip(package, reason=f"the commands under attack need {package}")
faults: Any = pytest.importorskip(
    "benchmarks.reliability.faults", reason="the benchmarks are not part of this installation"
)

BAD = ("lost", "left behind", "other", "uncaught", "crashed", "exit code of another kind")


def bad(counts: Counter[str]) -> dict[str, int]:
    return {name: counts[name] for name in BAD if counts[name]}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root, defaults = tmp_path_factory.mktemp("faults"), faults.trainer.train.__defaults__
    sizes, threads = (faults.chunks.GRAPHS, faults.chunks.NODES), torch.get_num_threads()
    faults.prepare(root)
    yield root
    faults.trainer.train.__defaults__ = defaults
    faults.chunks.GRAPHS, faults.chunks.NODES = sizes
    torch.set_num_threads(threads)
    shutil.rmtree(root)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(faults.COMMANDS))
def test_a_killed_command_resumes_to_the_same_result(name: str, root: Path) -> None:
    counts = faults.kill_and_resume(name, 2, root, root / "inputs")
    assert counts["stopped"] >= 2
    assert not bad(counts)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(faults.COMMANDS))
def test_a_full_disk_loses_nothing(name: str, root: Path) -> None:
    assert not bad(faults.full_disk(name, 2, root, root / "inputs"))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["directions", "train", "predict"])
def test_two_processes_in_one_folder_agree(name: str, root: Path) -> None:
    assert not bad(faults.two_at_once(name, root, root / "inputs"))


@pytest.mark.slow
def test_a_damaged_file_of_any_format_is_refused_or_has_the_same_content(root: Path) -> None:
    for title, (path, read) in faults.readers(root / "inputs").items():
        counts = faults.flips(path, read, 40)
        assert counts["refused"] > 20, title
        assert not bad(counts), title


def test_a_signal_at_the_very_end_does_not_let_the_child_out(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    def interrupt_flush() -> None:
        sys.stdout = SimpleNamespace(write=len, flush=interrupt, isatty=bool)  # type: ignore[assignment]

    try:
        process = faults.start(["--version"], tmp_path, interrupt_flush)
    except KeyboardInterrupt:
        os._exit(99)  # a second test runner
    assert faults.finish(process) == 130


def test_random_calls_return_or_raise_a_documented_error() -> None:
    counts = faults.calls(300)
    assert counts["returned"] > 20
    assert not bad(counts)


def test_other_content_is_counted(tmp_path: Path) -> None:
    PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)]).save(tmp_path / "a.safetensors")
    counts = faults.flips(tmp_path / "a.safetensors", lambda path: repr(path.read_bytes()), 30)
    assert counts["other"] == counts["damaged"] > 0  # a reader that checks nothing
