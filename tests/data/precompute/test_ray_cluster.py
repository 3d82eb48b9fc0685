"""A local Ray cluster of two nodes: a worker is killed, then a node, and the result is bitwise identical."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from pyarrow import parquet

from dgn.data import PackedGraphs, add_directions
from dgn.data.io.parquet import table_of
from dgn.data.io.sources import load_graphs
from dgn.data.precompute.chunks import take
from dgn.data.precompute.ray_cluster import _copy_chunk
from tests.data.conftest import random_graphs

pytest.importorskip("ray")

# In a subprocess: Ray leaves open sockets and threads behind, which would be errors in other tests.
SCRIPT = '''
import json, os, signal, sys, time
from pathlib import Path

import ray
from ray.cluster_utils import Cluster

import dgn.data.precompute.chunks
from dgn.data import PackedGraphs
from dgn.data.precompute import ray_cluster
from dgn.data.precompute.directions import Options, find_directions, with_directions
from dgn.data.precompute.chunks import Request

source, out, log = sys.argv[1:]
dgn.data.precompute.chunks.GRAPHS, dgn.data.precompute.chunks.NODES = 10, 0
solve = ray_cluster._solve


def solve_slowly(graphs, request):
    """Solve slowly, with a file that names the process while it is busy."""
    busy = Path(log) / str(os.getpid())
    busy.write_text(ray.get_runtime_context().get_node_id())
    time.sleep(0.3)
    directions = solve(graphs, request)
    busy.unlink()
    return directions


ray_cluster._solve = solve_slowly
memory = 100 * 2**20
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": memory})
second = cluster.add_node(num_cpus=1, object_store_memory=memory)
cluster.wait_for_nodes()
ray.init(cluster.address, log_to_driver=False)
events = []


def kill_one():
    """Kill a worker in the middle of a chunk; one that had just finished does not count."""
    while True:
        for busy in Path(log).iterdir():
            os.kill(int(busy.name), signal.SIGKILL)
            time.sleep(0.1)
            if busy.exists():
                return


def disturb(count):
    """Kill a worker after some chunks, and the second node after some more."""
    events.append("chunk")
    if len(events) == 3:
        kill_one()
        events.append("worker killed")
    if len(events) == 8:
        cluster.remove_node(second, allow_graceful=False)
        events.append("node removed")


graphs = PackedGraphs.load(source)
directions, summary = find_directions(graphs, Request(2), Options(engine="ray", workers=4), disturb)
with_directions(graphs, directions, Request(2)).save(out)
left = [path.name for path in Path(log).iterdir()]
ray.shutdown()
cluster.shutdown()
print(json.dumps({"events": events, "left": left, "chunks": summary.chunks}))
'''


def run(code: str, *args: object) -> str:
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", code, *map(str, args)]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout.strip().splitlines()[-1]


@pytest.mark.slow
def test_a_worker_and_a_node_die_and_the_result_is_complete_and_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = random_graphs(195)
    graphs.save(tmp_path / "in.safetensors")
    (tmp_path / "log").mkdir()
    report = json.loads(run(SCRIPT, tmp_path / "in.safetensors", tmp_path / "out.safetensors", tmp_path / "log"))
    assert report["chunks"] == report["events"].count("chunk") == 20
    assert {"worker killed", "node removed"} <= set(report["events"])
    assert report["left"]  # a worker died in the middle of a chunk
    monkeypatch.setattr("dgn.data.precompute.chunks.GRAPHS", 10)
    monkeypatch.setattr("dgn.data.precompute.chunks.NODES", 0)
    add_directions(graphs).save(tmp_path / "expected.safetensors")
    assert (tmp_path / "out.safetensors").read_bytes() == (tmp_path / "expected.safetensors").read_bytes()


@pytest.mark.slow
def test_the_command_starts_one_local_session_for_a_whole_table(tmp_path: Path) -> None:
    graphs = random_graphs(20)
    parquet.write_table(table_of(graphs), tmp_path / "in.parquet")
    args = ["directions", tmp_path / "in.parquet", "-o", tmp_path / "out.parquet", "--no-cache", "--engine", "ray"]
    code = """
import ray, dgn.data.io.parquet
from dgn.cli import make_app
sessions, init, dgn.data.io.parquet.ROWS = [], ray.init, 7
ray.init = lambda *args, **options: sessions.append(args) or init(*args, **options)
make_app()(standalone_mode=False)
print(sessions)
"""
    assert run(code, *args) == "[('local',)]"
    potential = load_graphs(tmp_path / "out.parquet").nodes["node_potential"]
    torch.testing.assert_close(potential, add_directions(graphs).nodes["node_potential"])


def test_a_chunk_is_sent_without_the_rest_of_the_dataset() -> None:
    graphs = random_graphs(2_000)
    assert len(pickle.dumps(_copy_chunk(take(graphs, 5, 10)))) < 10_000 < len(pickle.dumps(graphs))


def test_without_ray_the_remedy_is_named(small: PackedGraphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'dgn\[ray\]'"):
        add_directions(small, engine="ray")
