"""A Ray cluster of two nodes on this machine: a worker is killed, then a node, and every byte is as it should be."""

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
from dgn.data.precompute.ray_cluster import _alone
from tests.data.conftest import random_graphs

pytest.importorskip("ray")

# A process of its own: Ray leaves open sockets and threads behind, which would be errors in other tests.
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


def noted(graphs, request):
    """Solve slowly, and say who does it."""
    mine = Path(log) / str(os.getpid())
    mine.write_text(ray.get_runtime_context().get_node_id())
    time.sleep(0.3)
    found = solve(graphs, request)
    mine.unlink()
    return found


ray_cluster._solve = noted
memory = 100 * 2**20
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": memory})
second = cluster.add_node(num_cpus=1, object_store_memory=memory)
cluster.wait_for_nodes()
ray.init(cluster.address, log_to_driver=False)
events = []


def kill_one():
    """Kill a worker that is at work; one that was just done does not count."""
    while True:
        for busy in Path(log).iterdir():
            os.kill(int(busy.name), signal.SIGKILL)
            time.sleep(0.1)
            if busy.exists():
                return


def disturb(count):
    """After some chunks a worker dies in the middle of one; after some more, the second node."""
    events.append("chunk")
    if len(events) == 3:
        kill_one()
        events.append("worker killed")
    if len(events) == 8:
        cluster.remove_node(second, allow_graceful=False)
        events.append("node removed")


graphs = PackedGraphs.load(source)
found, summary = find_directions(graphs, Request(2), Options(engine="ray", workers=4), disturb)
with_directions(graphs, found, Request(2)).save(out)
left = [path.name for path in Path(log).iterdir()]
ray.shutdown()
cluster.shutdown()
print(json.dumps({"events": events, "left": left, "chunks": summary.chunks}))
'''


def run(code: str, *words: object) -> str:
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", code, *map(str, words)]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=400)
    assert found.returncode == 0, found.stderr[-3000:]
    return found.stdout.strip().splitlines()[-1]


@pytest.mark.slow
def test_a_worker_and_a_node_die_and_the_result_is_complete_and_identical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs = random_graphs(195)
    graphs.save(tmp_path / "in.safetensors")
    (tmp_path / "log").mkdir()
    told = json.loads(run(SCRIPT, tmp_path / "in.safetensors", tmp_path / "out.safetensors", tmp_path / "log"))
    assert told["chunks"] == told["events"].count("chunk") == 20
    assert {"worker killed", "node removed"} <= set(told["events"])
    assert told["left"]  # someone died in the middle of a chunk
    monkeypatch.setattr("dgn.data.precompute.chunks.GRAPHS", 10)
    monkeypatch.setattr("dgn.data.precompute.chunks.NODES", 0)
    add_directions(graphs).save(tmp_path / "expected.safetensors")
    assert (tmp_path / "out.safetensors").read_bytes() == (tmp_path / "expected.safetensors").read_bytes()


@pytest.mark.slow
def test_the_command_starts_one_local_session_for_a_whole_table(tmp_path: Path) -> None:
    graphs = random_graphs(20)
    parquet.write_table(table_of(graphs), tmp_path / "in.parquet")
    words = ["directions", tmp_path / "in.parquet", "-o", tmp_path / "out.parquet", "--no-cache", "--engine", "ray"]
    code = """
import ray, dgn.data.io.parquet
from dgn.cli import make_app
sessions, init, dgn.data.io.parquet.ROWS = [], ray.init, 7
ray.init = lambda *given, **named: sessions.append(given) or init(*given, **named)
make_app()(standalone_mode=False)
print(sessions)
"""
    assert run(code, *words) == "[('local',)]"
    found = load_graphs(tmp_path / "out.parquet").nodes["potential"]
    torch.testing.assert_close(found, add_directions(graphs).nodes["potential"])


def test_a_chunk_is_sent_without_the_rest_of_the_dataset() -> None:
    graphs = random_graphs(2_000)
    assert len(pickle.dumps(_alone(take(graphs, 5, 10)))) < 10_000 < len(pickle.dumps(graphs))


def test_without_ray_the_remedy_is_named(small: PackedGraphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"pip install 'dgn\[ray\]'"):
        add_directions(small, engine="ray")
