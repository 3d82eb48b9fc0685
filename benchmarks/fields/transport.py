"""Transport on irregular meshes: directional networks and learned schemes beside a MeshGraphNets-like network.

    python -m benchmarks.fields.transport --small                        # some minutes on two CPU cores
    python -m benchmarks.fields.transport --device cuda --parallel 12    # the benchmark in full
    python -m benchmarks.fields.transport --small --time                 # the fastest of five times 25 steps, in turns

All networks have the same inputs (the scalar, the wind, boundaries; schemes and those marked "edges" also the edge
vectors), depth and at most the same number of parameters, and read and predict the scalar alike
(``transport_networks.Invariant``). They are trained to predict three frames in a row, from one with noise, on meshes of
0.75 to 1.25 times the spacing. Results are written after each cell of network and seed to ``--out``; what is there is
not trained again. ``--parallel`` cells are processes. The data are cached beside ``--out``.

Errors are root mean squares: of one frame relative to no change, and of the last frame of a rollout relative to the
mean of the graph, since the scalar spreads and no change would be easy to beat. Rollouts have a limiter
(``transport_networks.limit``); errors without it are given as well. They are measured on test meshes, on meshes of half
the spacing, and in a wind of 1.5 times the strength; time is that of a training step.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

import dgn
from benchmarks.fields.node_regression import Cells, NodeBatch, Recipe, count, fit, widest
from benchmarks.fields.transport_networks import NETWORKS, limit, make_network
from dgn.data import PackedGraphs
from dgn.data.datasets.paths import cached_graphs
from dgn.data.datasets.transport import GENERATOR, generate_transport

SCORES = [f"{kind}_{value}" for kind in ("test", "finer", "wind") for value in ("one", "rollout", "unlimited")]


class Scale(NamedTuple):
    """How much data and training."""

    split: tuple[int, int, int]
    spacing: float
    rollout: int
    group: int  # graphs of a batch
    depth: int
    budget: int
    steps: int
    seeds: int
    noise: float = 0.05
    unrolled: int = 3  # frames of a training step


SMALL = Scale((24, 1, 4), 0.08, 20, 6, 4, 30_000, 400, 2)
FULL = Scale((500, 1, 30), 0.05, 50, 16, 6, 230_000, 2_500, 3)


class Group(NamedTuple):
    """Graphs side by side on the device: sorted once, and any of their frames as a batch."""

    graph: dgn.Graph
    frames: Tensor
    rest: Tensor
    field: Tensor
    edge_attr: Tensor
    extra: dict[Any, Any]

    def batch(self, scalar: Tensor, target: Tensor) -> NodeBatch:
        x = torch.cat([scalar[:, None], self.rest], dim=1)
        return NodeBatch(x, target, self.graph, self.field, self.edge_attr, self.extra)


def groups_of(graphs: PackedGraphs, size: int, device: torch.device) -> list[Group]:
    groups = []
    order = torch.randperm(len(graphs), generator=torch.Generator().manual_seed(0))
    for chunk in order.split(size):
        part = graphs.select(chunk)
        moved = {name: part.nodes[name].to(device) for name in ("frames", "x", "area")}
        field, edge_attr = (part.edges[name].to(device) for name in ("edge_field", "edge_attr"))
        graph = part.graph.to(device)
        extra = {"area": moved["area"][:, None]}
        groups.append(Group(graph, moved["frames"], moved["x"][:, 1:].contiguous(), field, edge_attr, extra))
    return groups


def load(scale: Scale, folder: Path) -> dict[str, PackedGraphs]:
    """Training graphs, and test graphs of the same kind, of finer meshes and of stronger wind, each in a file."""
    test, long = scale.split[2], scale.rollout
    kinds: dict[str, dict[str, Any]] = {
        "train": {"split": (scale.split[0], 1, 1), "spacing": (0.75 * scale.spacing, 1.25 * scale.spacing), "seed": 0},
        "test": {"split": (test, 1, 1), "spacing": scale.spacing, "seed": 1, "frames": long, "trajectories": 1},
        "finer": {"split": (test, 1, 1), "spacing": scale.spacing / 2, "seed": 2, "frames": long, "trajectories": 1},
        "wind": {
            "split": (test, 1, 1),
            "spacing": scale.spacing,
            "seed": 3,
            "frames": long,
            "trajectories": 1,
            "wind": 1.5,
        },
    }

    workers = len(os.sched_getaffinity(0))

    def read(name: str) -> PackedGraphs:
        options = kinds[name]
        source = f"{GENERATOR}, {json.dumps(options)}"
        file = folder / f"transport-{name}-{scale.spacing:g}-{scale.split[0]}.safetensors"
        graphs = cached_graphs(file, source, lambda: generate_transport(**options, workers=workers))
        return graphs.select((graphs.graphs["split"] == 0).nonzero()[:, 0])

    return {name: read(name) for name in kinds}


def loss_of(network: nn.Module, group: Group, scale: Scale, size: float) -> Tensor:
    """The squared error of frames that are predicted in a row, from one with noise, in units of ``size``."""
    first = int(torch.randint(group.frames.size(1) - scale.unrolled, (1,)))
    scalar = group.frames[:, first]
    scalar = scalar + scale.noise * torch.randn_like(scalar)
    total = scalar.new_zeros(())
    for frame in range(first + 1, first + 1 + scale.unrolled):
        scalar = scalar + size * network(group.batch(scalar, scalar))[:, 0]
        total = total + ((scalar - group.frames[:, frame]) / size).square().mean()
    return total / scale.unrolled


@torch.no_grad()
def errors(network: nn.Module, groups: list[Group], size: float) -> dict[str, float]:
    """Of one frame (every fifth is tried) relative to no change, and of the end of the rollout relative to the mean."""
    sums = {name: torch.zeros(2, dtype=torch.float64) for name in ("one", "rollout", "unlimited")}
    for group in groups:
        frames, graph = group.frames, group.graph
        for first in range(0, frames.size(1) - 1, 5):
            change = frames[:, first + 1] - frames[:, first]
            predicted = size * network(group.batch(frames[:, first], change))[:, 0]
            sums["one"] += _squares(predicted - change, change)
        mean = graph.sum_over_graph(frames[:, :1], mean=True)[graph.batch, 0]
        for name, hops in (("rollout", 2), ("unlimited", None)):
            scalar = frames[:, 0]
            for _ in range(frames.size(1) - 1):
                following = scalar + size * network(group.batch(scalar, scalar))[:, 0]
                scalar = following if hops is None else limit(graph, scalar, following, hops)
            sums[name] += _squares(scalar - frames[:, -1], mean - frames[:, -1])
    return {name: round(float((error / reference).sqrt()), 4) for name, (error, reference) in sums.items()}


def _squares(*values: Tensor) -> Tensor:
    return torch.stack([value.double().square().sum() for value in values]).cpu()


def train_one(name: str, seed: int, data: dict[str, list[Group]], scale: Scale, device: torch.device) -> dict[str, Any]:
    width = widest(lambda width: make_network(name, width, scale.depth), scale.budget)
    torch.manual_seed(seed)
    network = make_network(name, width, scale.depth).to(device)
    train = data["train"]
    size = float(torch.cat([group.frames.diff(dim=1).flatten() for group in train]).std())
    order = torch.randint(len(train), (scale.steps,), generator=torch.Generator().manual_seed(seed)).tolist()
    milliseconds = fit(
        network,
        lambda step: train[order[step]],
        lambda net, group: loss_of(net, group, scale, size),
        Recipe(scale.steps),
    )
    network.eval()
    scores = {
        f"{kind}_{value}": number
        for kind in ("test", "finer", "wind")
        for value, number in errors(network, data[kind], size).items()
    }
    return {"parameters": count(network), "width": width, "ms_a_step": round(milliseconds, 2), **scores}


def step_times(names: Sequence[str], group: Group, scale: Scale, device: torch.device) -> None:
    """Print milliseconds of a training step of one frame; on a GPU also as a captured CUDA graph, without launches."""
    scale = scale._replace(unrolled=1)
    best: dict[str, dict[str, float]] = {name: {} for name in names}
    for name in [*names] * 5:
        width = widest(lambda width, name=name: make_network(name, width, scale.depth), scale.budget)
        network = make_network(name, width, scale.depth).to(device)
        took = {"eager": fit(network, lambda _: group, lambda net, _: loss_of(net, group, scale, 1.0), Recipe(25))}
        if device.type == "cuda":
            took["captured"] = captured_time(network, group, scale)
        best[name] = {how: min(time, best[name].get(how, time)) for how, time in took.items()}
    for name, took in best.items():
        print(f"{name}: {', '.join(f'{how} {time:.2f} ms' for how, time in took.items())}", flush=True)


def captured_time(network: nn.Module, group: Group, scale: Scale) -> float:
    """Milliseconds of loss and gradients, replayed from a CUDA graph."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(3):
            loss_of(network, group, scale, 1.0).backward()
    torch.cuda.synchronize()
    network.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph, stream=stream):
        loss_of(network, group, scale, 1.0).backward()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    graph.replay()
    begin.record()
    for _ in range(50):
        graph.replay()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / 50


def in_process(key: dict[str, Any], arguments: argparse.Namespace, out: Path) -> dict[str, Any] | None:
    """The row of a cell, trained in a process of its own; None if it failed, with its output printed."""
    own = out.with_name(f"{out.stem}-{list(NETWORKS).index(key['network'])}-{key['seed']}.json")
    line = [sys.executable, "-m", "benchmarks.fields.transport", "--device", arguments.device, "--out", str(own)]
    line += ["--networks", key["network"], "--seeds", str(key["seed"])]
    line += ["--small"] if arguments.small else []
    line += [] if arguments.steps is None else ["--steps", str(arguments.steps)]
    process = subprocess.run(
        line, check=False, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    if process.returncode:
        print(f"{key}: {process.stderr[-1500:]}", flush=True)
        return None
    return json.loads(own.read_text())["rows"][0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few meshes and steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="results; default runs/transport[-small].json")
    parser.add_argument("--steps", type=int, help="of training, in place of the default")
    parser.add_argument("--time", action="store_true", help="time the training steps alone")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=list(NETWORKS), metavar="NAME")
    parser.add_argument("--seeds", type=int, nargs="+", help="in place of the default")
    parser.add_argument("--parallel", type=int, default=1, help="cells at a time, each in a process")
    arguments = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    scale, device = (SMALL if arguments.small else FULL), torch.device(arguments.device)
    scale = scale._replace(steps=arguments.steps or scale.steps)
    out = arguments.out or Path(f"runs/transport{'-small' if arguments.small else ''}.json")
    cells = Cells(out, {**scale._asdict(), "device": device.type})
    packed = load(scale, out.parent)
    keys = [
        {"network": name, "seed": seed}
        for seed, name in product(arguments.seeds or range(scale.seeds), arguments.networks)
    ]
    if arguments.time:
        step_times(arguments.networks, groups_of(packed["train"], scale.group, device)[0], scale, device)
        return
    if arguments.parallel > 1:
        lock = Lock()

        def run(key: dict[str, Any]) -> None:
            row = in_process(key, arguments, out)
            with lock:
                if row is not None:
                    cells.run(key, lambda: row)

        with ThreadPoolExecutor(arguments.parallel) as pool:
            list(pool.map(run, [key for key in keys if not cells.has(key)]))
    else:
        data = {name: groups_of(graphs, scale.group, device) for name, graphs in packed.items()}
        for key in keys:
            cells.run(key, lambda key=key: train_one(key["network"], key["seed"], data, scale, device))
    print(cells.summary(["network"], ["parameters", "ms_a_step", *SCORES]))


if __name__ == "__main__":
    main()
