"""Long range, made: predict at one end of a chain, or at the leaves of a tree, what stands at the other end.

    python -m benchmarks.fields.long_range [--out runs/long_range.json] [--figure docs/figures/long_range.png]

Every node has one of four symbols at random, and a mark where it has to predict. On a chain both ends predict the
symbol of the other end; on a binary tree every leaf predicts that of the root. Networks have as many layers as the
distance, those with walks of two steps half as many, so that all of them can see the symbol; all have at most the same
number of parameters. Shorter graphs are trained on as well: without them, the six networks that were tried stayed at
chance at a distance of 8. Only the longest are scored. Chance is 25 %. The field is the first eigenvector of the
Laplacian (its sign is arbitrary), on trees also depth.
"""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn import GINConv, ResGatedGraphConv

import dgn
from benchmarks.fields.node_regression import (
    Cells,
    DirectionalLayer,
    EdgeLayer,
    Network,
    NodeBatch,
    Recipe,
    count,
    fit,
    widest,
)
from dgn.testing import disjoint_union, path

SYMBOLS, COPIES, BUDGET, DISTANCES = 4, 16, 20_000, {"chain": (4, 8, 12), "tree": (2, 3, 4)}
RECIPE = Recipe(steps=400)


def _gin(width: int) -> nn.Module:
    return EdgeLayer(
        GINConv(nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width)), train_eps=True)
    )


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "mean": lambda w: DirectionalLayer(w, ("mean",)),
    "mean max min std": lambda w: DirectionalLayer(w, ("mean", "max", "min", "std")),
    "GIN": _gin,
    "GatedGCN": lambda w: EdgeLayer(ResGatedGraphConv(w, w)),
    "mean dx1 av1, eigenvector": lambda w: DirectionalLayer(w, ("mean", "dx1", "av1"), [0]),
    "mean fwd1 bwd1, eigenvector": lambda w: DirectionalLayer(w, ("mean", "fwd1", "bwd1"), [0]),
    "walks2of1, eigenvector, half the layers": lambda w: DirectionalLayer(w, ("mean", "walks2of1"), [0]),
}
ON_TREES = {"mean fwd1 bwd1, depth": lambda w: DirectionalLayer(w, ("mean", "fwd1", "bwd1"), [1])}


class Task(NamedTuple):
    """Graphs side by side; where nodes predict, the node whose symbol each predicts, whether it is at full distance."""

    graph: dgn.Graph
    field: Tensor
    asked: Tensor
    answer: Tensor
    far: Tensor

    def draw(self) -> NodeBatch:
        """The same graphs with other symbols."""
        symbol = torch.randint(SYMBOLS, (self.graph.num_nodes,))
        mark = torch.zeros(self.graph.num_nodes, 1)
        mark[self.asked] = 1
        x = torch.cat([nn.functional.one_hot(symbol, SYMBOLS).float(), mark], dim=1)
        return NodeBatch(x, symbol[self.answer], self.graph, self.field, extra={"asked": self.asked})


def chains(distance: int) -> Task:
    """Chains of even lengths up to the distance; the shorter ones teach the longer ones."""
    lengths = [length for length in range(2, distance + 1, 2) for _ in range(COPIES)]
    edges, total, batch = disjoint_union(*[path(length + 1) for length in lengths])
    size = torch.tensor(lengths) + 1
    first, last = size.cumsum(0) - size, size.cumsum(0) - 1
    place = torch.arange(total) - first[batch]
    far = torch.tensor(lengths) == distance
    ends, others = torch.cat([first, last]), torch.cat([last, first])
    return _task(edges, total, batch, place.double(), ends, others, far.repeat(2))


def trees(distance: int) -> Task:
    """Binary trees of all depths up to the distance."""
    heights = [height for height in range(1, distance + 1) for _ in range(COPIES // 2 ** (height - 1) + 1)]
    sizes = [2 ** (height + 1) - 1 for height in heights]
    edges, total, batch = disjoint_union(*[(_binary_tree(n), n) for n in sizes])
    first = torch.tensor(sizes).cumsum(0) - torch.tensor(sizes)
    place = torch.arange(total) - first[batch]
    depth = ((place + 1).double().log2() + 1e-9).floor()
    leaves = (depth == torch.tensor(heights)[batch]).nonzero()[:, 0]
    return _task(edges, total, batch, depth, leaves, first[batch[leaves]], depth[leaves] == distance)


def _binary_tree(n: int) -> Tensor:
    child = torch.arange(1, n)
    one_way = torch.stack([(child - 1) // 2, child])
    return torch.cat([one_way, one_way.flip(0)], dim=1)


def _task(edges: Tensor, n: int, batch: Tensor, depth: Tensor, asked: Tensor, answer: Tensor, far: Tensor) -> Task:
    graph = dgn.as_graph(edges, n, batch)
    potential = torch.stack([dgn.directions(edges, n, k=1).potential[:, 0], depth], dim=1)
    return Task(graph, dgn.gradient(potential, graph).float(), asked, answer, far)


def train_one(name: str, task: Task, distance: int, seed: int) -> dict[str, float]:
    layers = -(-distance // 2) if name.startswith("walks") else distance

    def make(width: int) -> Network:
        return Network(SYMBOLS + 1, SYMBOLS, width, layers, {**NETWORKS, **ON_TREES}[name])

    torch.manual_seed(seed)
    network = make(widest(make, BUDGET))
    milliseconds = fit(
        network,
        lambda _: task.draw(),
        lambda net, batch: nn.functional.cross_entropy(net(batch)[batch.extra["asked"]], batch.y),
        RECIPE,
    )
    network.eval()
    with torch.no_grad():
        batches = [task.draw() for _ in range(8)]
        right = [(network(batch)[task.asked].argmax(dim=1) == batch.y)[task.far].double().mean() for batch in batches]
    accuracy = round(100 * float(torch.stack(right).mean()), 2)
    return {"layers": layers, "parameters": count(network), "ms_a_step": round(milliseconds, 1), "accuracy": accuracy}


def draw(cells: Cells, file: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True, layout="constrained")
    names = list(dict.fromkeys(row["network"] for row in cells.rows))
    for axis, shape in zip(axes, DISTANCES, strict=True):
        for number, name in enumerate(names):
            means = []
            for distance in DISTANCES[shape]:
                keys = {"shape": shape, "distance": distance, "network": name}
                scores = [r["accuracy"] for r in cells.rows if all(r[key] == value for key, value in keys.items())]
                means += [(distance, sum(scores) / len(scores))] if scores else []
            style = "-o" if "fwd1" in name or "walks" in name else "--s"
            axis.plot(*zip(*means, strict=True), style, label=name, color=f"C{number}", markersize=4) if means else None
        axis.axhline(100 / SYMBOLS, color="0.6", linewidth=0.8)
        axis.set(xlabel=f"distance on a {shape}", xticks=DISTANCES[shape])
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy, %")
    figure.legend(*axes[1].get_legend_handles_labels(), fontsize=8, frameon=False, ncols=3, loc="outside lower center")
    figure.savefig(file, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/long_range.json"))
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    settings = {"symbols": SYMBOLS, "copies": COPIES, "budget": BUDGET, "steps": RECIPE.steps}
    cells = Cells(arguments.out, settings)
    for seed in range(arguments.seeds):
        for shape, distance in ((shape, distance) for shape, some in DISTANCES.items() for distance in some):
            task = chains(distance) if shape == "chain" else trees(distance)
            if True:
                for name in (*NETWORKS, *(ON_TREES if shape == "tree" else ())):
                    cells.run(
                        {"shape": shape, "distance": distance, "network": name, "seed": seed},
                        lambda name=name, task=task, distance=distance, seed=seed: train_one(
                            name, task, distance, seed
                        ),
                    )
    print(cells.summary(["shape", "distance", "network"], ["layers", "parameters", "accuracy"], 1))
    if arguments.figure:
        draw(cells, arguments.figure)


if __name__ == "__main__":
    main()
