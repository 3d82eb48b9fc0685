"""Ctrl-C and SIGTERM: what is said, what is kept, and that nothing is waited for."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dgn.data import PackedGraphs
from dgn.data.io.atomic import SCRATCH
from tests.data.conftest import random_graphs

# The first chunk of graphs is cached, the second is never solved.
ENDLESS = """
import sys, time
from pathlib import Path
import dgn.data.precompute.chunks as chunks
import dgn.data.precompute.local as local
from dgn.cli import main
chunks.NODES, solve, calls = 1000, local.solve, []
def endless(graphs, request):
    calls.append(1)
    if len(calls) > 1:
        while not any(Path(sys.argv[-1]).glob("*.safetensors")):
            time.sleep(0.01)
        time.sleep(0.3)
        print("busy", flush=True)
        time.sleep(3600)
    return solve(graphs, request)
local.solve = endless
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_directions_say_what_is_kept_and_wait_for_no_chunk(number: int, tmp_path: Path) -> None:
    random_graphs(1200).save(tmp_path / "in.safetensors")
    arguments = ["directions", tmp_path / "in.safetensors", "-o", tmp_path / "out.safetensors", "--quiet"]
    arguments += ["--workers", "1", "--cache", tmp_path / "cache"]
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "busy\n"
    process.send_signal(number)
    _, message = process.communicate(timeout=60)  # a chunk takes an hour
    assert process.returncode == 130
    assert "Stopped. The directions of 1 of 2 chunks of graphs were computed; they are kept in" in message
    assert "and the same run resumes" in message
    assert "Traceback" not in message
    assert len(list((tmp_path / "cache").iterdir())) == 1
    assert not list(tmp_path.glob(f"{SCRATCH}*"))


WRITING = """
import sys, time
from dgn.cli import main
from dgn.data import PackedGraphs
import dgn.data.io.sources as sources
def endless(path, tables):
    path.write_bytes(b"half")
    print("writing", flush=True)
    time.sleep(3600)
sources.write_parquet = endless
main()
"""


def test_sigterm_while_a_file_is_written_leaves_nothing(tmp_path: Path) -> None:
    PackedGraphs.pack([(torch.tensor([[0, 1], [1, 0]]), 2)]).save(tmp_path / "in.safetensors")
    arguments = ["directions", tmp_path / "in.safetensors", "-o", tmp_path / "out.parquet", "--quiet", "--no-cache"]
    process = subprocess.Popen(
        [sys.executable, "-c", WRITING, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.terminate()
    assert "Stopped." in process.communicate(timeout=60)[1]
    assert [path.name for path in tmp_path.iterdir()] == ["in.safetensors"]
