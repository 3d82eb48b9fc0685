"""Transport on irregular meshes: DGN along the wind beside isotropic networks and a MeshGraphNets-like one.

    python benchmarks/transport.py --small                        # a few minutes on two CPU cores
    python benchmarks/transport.py --device cuda                  # the benchmark in full, five seeds
    python benchmarks/transport.py --small --time                 # the fastest of five times 25 steps, taken in turns

All networks have the same inputs (the scalar, the wind, boundaries; those marked "edges" also the edge vectors), depth
and at most the same number of parameters, and are trained on pairs of frames with noise on the input. Results are
written after each cell of network and seed to ``--out``; what is there is not trained again. The data are cached
beside it.

Errors are root mean squares: of one frame relative to no change, and of the last frame of a rollout relative to the
mean of the graph, since the scalar spreads and no change would be easy to beat. They are given on test meshes, on
meshes of half the spacing, and in a wind of 1.5 times the strength; time is that of a training step.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from node_regression import Cells, DirectionalLayer, NodeBatch, Recipe, count, fit, widest
from torch import Tensor, nn

import dgn
from dgn.data import PackedGraphs
from dgn.data.datasets.paths import cached_graphs
from dgn.data.datasets.transport import generate_transport

COMPLEX = {"message": "complex", "edge_dim": 3}
DIRECTIONAL: dict[str, Callable[[int], nn.Module]] = {
    "mean max min std": lambda w: DirectionalLayer(w, ("mean", "max", "min", "std")),
    "mean max min std, edges": lambda w: DirectionalLayer(w, ("mean", "max", "min", "std"), **COMPLEX),
    "mean dx1 dx2 av1 (absolute)": lambda w: DirectionalLayer(w, ("mean", "dx1", "dx2", "av1")),
    "mean dx1-signed dx2-signed av1": lambda w: DirectionalLayer(w, ("mean", "dx1-signed", "dx2-signed", "av1")),
    "mean dx1-signed dx2-signed av1, edges": lambda w: DirectionalLayer(
        w, ("mean", "dx1-signed", "dx2-signed", "av1"), **COMPLEX
    ),
    "mean fwd1 bwd1 dx2-signed": lambda w: DirectionalLayer(w, ("mean", "fwd1", "bwd1", "dx2-signed")),
}
MESH_GRAPH_NET = "MeshGraphNets-like, edges"


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
    noise: float = 0.02


SMALL = Scale((24, 1, 4), 0.08, 20, 6, 4, 30_000, 400, 2)
FULL = Scale((1000, 1, 100), 0.05, 50, 16, 6, 230_000, 20_000, 5)


class Directional(nn.Module):
    """Encoder, ``DGNConv`` layers with a residual connection and a norm, decoder: no state on edges."""

    def __init__(self, width: int, depth: int, make_layer: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width))
        self.layers = nn.ModuleList([make_layer(width) for _ in range(depth)])
        self.mix = nn.ModuleList([nn.Sequential(nn.ReLU(), nn.Linear(width, width)) for _ in range(depth)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.decoder = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, batch: NodeBatch) -> Tensor:
        h = self.encoder(batch.x)
        for layer, mix, norm in zip(self.layers, self.mix, self.norms, strict=True):
            h = h + norm(mix(layer(h, batch)))
        return self.decoder(h)


class MeshGraphNet(nn.Module):
    """Encoder, blocks that update edges and nodes by perceptrons, decoder (Pfaff et al. 2021, arXiv:2010.03409)."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()

        def perceptron(inputs: int, outputs: int = width, norm: bool = True) -> nn.Sequential:
            layers = [nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs)]
            return nn.Sequential(*layers, *([nn.LayerNorm(outputs)] if norm else []))

        self.nodes, self.edges = perceptron(4), perceptron(3)
        self.edge_updates = nn.ModuleList([perceptron(3 * width) for _ in range(depth)])
        self.node_updates = nn.ModuleList([perceptron(2 * width) for _ in range(depth)])
        self.decoder = perceptron(width, 1, norm=False)

    def forward(self, batch: NodeBatch) -> Tensor:
        assert batch.edge_attr is not None
        h, e = self.nodes(batch.x), self.edges(batch.edge_attr)
        source, target = batch.graph.edge_index
        for edge_update, node_update in zip(self.edge_updates, self.node_updates, strict=True):
            e = e + edge_update(torch.cat([h[source], h[target], e], dim=1))
            h = h + node_update(torch.cat([h, batch.graph.sum_to_target(e)], dim=1))
        return self.decoder(h)


NETWORKS = (*DIRECTIONAL, MESH_GRAPH_NET)
SCORES = [f"{kind}_{value}" for kind in ("test", "finer", "wind") for value in ("one", "rollout")]


def make_network(name: str, width: int, depth: int) -> nn.Module:
    return MeshGraphNet(width, depth) if name == MESH_GRAPH_NET else Directional(width, depth, DIRECTIONAL[name])


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
        moved = {name: part.nodes[name].to(device) for name in ("frames", "x")}
        field, edge_attr = (part.edges[name].to(device) for name in ("edge_field", "edge_attr"))
        graph = part.graph.to(device)
        groups.append(Group(graph, moved["frames"], moved["x"][:, 1:].contiguous(), field, edge_attr, extra={}))
    return groups


def load(scale: Scale, folder: Path) -> dict[str, PackedGraphs]:
    """Training graphs, and test graphs of the same kind, of finer meshes and of stronger wind, each in a file."""
    test, long = scale.split[2], scale.rollout
    kinds: dict[str, dict[str, Any]] = {
        "train": {"split": (scale.split[0], 1, 1), "spacing": scale.spacing, "seed": 0},
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

    def read(name: str) -> PackedGraphs:
        options = kinds[name]
        source = f"transport generator 1, {json.dumps(options)}"
        file = folder / f"transport-{name}-{scale.spacing:g}-{scale.split[0]}.safetensors"
        graphs = cached_graphs(file, source, lambda: generate_transport(**options))
        return graphs.select((graphs.graphs["split"] == 0).nonzero()[:, 0])

    return {name: read(name) for name in kinds}


def loss_of(network: nn.Module, group: Group, noise: float, scale: float) -> Tensor:
    """The squared error of a change, from a frame with noise to the next one as it is."""
    first = int(torch.randint(group.frames.size(1) - 1, (1,)))
    scalar = group.frames[:, first]
    scalar = scalar + noise * torch.randn_like(scalar)
    target = (group.frames[:, first + 1] - scalar) / scale
    return (network(group.batch(scalar, target))[:, 0] - target).square().mean()


@torch.no_grad()
def errors(network: nn.Module, groups: list[Group], scale: float) -> dict[str, float]:
    """Of one frame (every fifth is tried) relative to no change, and of the end of the rollout relative to the mean."""
    sums = torch.zeros(4, dtype=torch.float64)
    for group in groups:
        frames = group.frames
        for first in range(0, frames.size(1) - 1, 5):
            change = frames[:, first + 1] - frames[:, first]
            predicted = scale * network(group.batch(frames[:, first], change))[:, 0]
            sums[0] += float((predicted - change).square().sum())
            sums[1] += float(change.square().sum())
        scalar = frames[:, 0]
        for _ in range(frames.size(1) - 1):
            scalar = scalar + scale * network(group.batch(scalar, scalar))[:, 0]
        sums[2] += float((scalar - frames[:, -1]).square().sum())
        mean = group.graph.sum_over_graph(frames[:, :1], mean=True)[group.graph.batch, 0]
        sums[3] += float((mean - frames[:, -1]).square().sum())
    one, rollout = (sums[::2] / sums[1::2]).sqrt().tolist()
    return {"one": round(one, 4), "rollout": round(rollout, 4)}


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
        lambda net, group: loss_of(net, group, scale.noise, size),
        Recipe(scale.steps),
    )
    network.eval()
    scores = {
        f"{kind}_{value}": number
        for kind in ("test", "finer", "wind")
        for value, number in errors(network, data[kind], size).items()
    }
    return {"parameters": count(network), "width": width, "ms_a_step": round(milliseconds, 2), **scores}


def step_times(data: dict[str, list[Group]], scale: Scale, device: torch.device) -> None:
    """Print milliseconds of a training step."""
    best: dict[str, float] = {}
    for _ in range(5):
        for name in NETWORKS:
            width = widest(lambda width, name=name: make_network(name, width, scale.depth), scale.budget)
            network = make_network(name, width, scale.depth).to(device)
            took = fit(
                network, lambda _: data["train"][0], lambda net, group: loss_of(net, group, 0.0, 1.0), Recipe(25)
            )
            best[name] = min(took, best.get(name, took))
    for name, milliseconds in best.items():
        print(f"{name}: {milliseconds:.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="few meshes and steps")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--out", type=Path, help="results; default runs/transport[-small].json")
    parser.add_argument("--steps", type=int, help="of training, in place of the default")
    parser.add_argument("--time", action="store_true", help="time the training steps alone")
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS), choices=NETWORKS, metavar="NAME")
    arguments = parser.parse_args()
    scale, device = (SMALL if arguments.small else FULL), torch.device(arguments.device)
    scale = scale._replace(steps=arguments.steps or scale.steps)
    out = arguments.out or Path(f"runs/transport{'-small' if arguments.small else ''}.json")
    cells = Cells(out, {**scale._asdict(), "device": device.type})
    packed = load(scale, out.parent)
    data = {name: groups_of(graphs, scale.group, device) for name, graphs in packed.items()}
    if arguments.time:
        step_times(data, scale, device)
        return
    for seed in range(scale.seeds):
        for name in arguments.networks:
            cells.run(
                {"network": name, "seed": seed},
                lambda name=name, seed=seed: train_one(name, seed, data, scale, device),
            )
    print(cells.summary(["network"], ["parameters", "ms_a_step", *SCORES]))


if __name__ == "__main__":
    main()
