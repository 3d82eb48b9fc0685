"""Small graphs and experiments for tests; run as a program, training that another process may interrupt."""

import json
import sys
import time
from functools import cache
from pathlib import Path

import torch

from dgn.data import PackedGraphs, add_directions
from dgn.data.benchmark import Benchmark
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.run import EpochReport

TARGETS = {"regression": 1, "classification": 3, "multi-label": 2, "node-classification": 2}
METRICS = {
    "regression": "mae",
    "classification": "accuracy",
    "multi-label": "roc-auc",
    "node-classification": "balanced-accuracy",
}


@cache
def molecules(count: int = 40, seed: int = 0) -> PackedGraphs:
    """Trees with some rings, of 1 to 12 nodes; every third graph is a ring, whose eigenvalues are repeated."""
    draw = torch.Generator().manual_seed(seed)

    def integers(high: int, *shape: int) -> torch.Tensor:
        return torch.randint(high, shape or (1,), generator=draw)

    graphs = []
    for index in range(count):
        n = 1 if index == 3 else 4 + int(integers(9))
        bonds = {(int(integers(i)), i) for i in range(1, n)} | {tuple(sorted(integers(n, 2).tolist()))}
        if index % 3 == 1:
            bonds = {tuple(sorted((i, (i + 1) % n))) for i in range(n)}
        edges = torch.tensor(sorted(pair for pair in bonds if pair[0] != pair[1]), dtype=torch.long).view(-1, 2).T
        graphs.append((torch.cat([edges, edges.flip(0)], dim=1), n))
    packed = PackedGraphs.pack(graphs)
    split = torch.full((count,), 0, dtype=torch.uint8)
    split[int(0.6 * count) :], split[int(0.8 * count) :] = 1, 2
    return add_directions(packed, k=2).with_values(
        nodes={"x": integers(5, packed.num_nodes)},
        edges={"edge_attr": integers(3, packed.num_edges).to(torch.uint8)},
        graphs={"split": split},
    )


@cache
def make_benchmark(objective: str = "regression", coordinates: bool = False, numbers: bool = False) -> Benchmark:
    """The molecules with a learnable target: the number of nodes of type 0. ``numbers``: continuous edge features."""
    graphs = molecules()
    if numbers:
        graphs = graphs.with_values(edges={"edge_attr": graphs.edges["edge_attr"].float()[:, None] / 3})
    zero = (graphs.nodes["x"] == 0).long()
    count = torch.zeros(len(graphs)).index_add(0, graphs.graph.batch, zero.float())
    many = (count > count.median()).float()
    if objective == "node-classification":
        graphs = graphs.with_values(nodes={"y": zero})
    else:
        several = torch.stack([many, 1 - many], dim=1)
        several[::7, 1] = torch.nan
        y = {"regression": count / 4, "classification": count.clamp(max=2).long(), "multi-label": several}[objective]
        graphs = graphs.with_values(graphs={"y": y})
    return Benchmark(
        "small", graphs, objective, METRICS[objective], TARGETS[objective], (5,), None if numbers else (3,), coordinates
    )


def make_experiment(**sections: dict) -> Experiment:
    """Three epochs of a small network; sections such as ``training={"epochs": 5}`` override settings."""
    data = {
        "name": "small",
        "data": {"dataset": "zinc"},
        "network": {"hidden": 8, "num_layers": 2, "aggregators": ["mean", "dx1"]},
        "training": {"epochs": 3, "batch_size": 7, "learning_rate": 0.01},
    }
    for name, section in sections.items():
        data[name] = {**data.get(name, {}), **section}
    return read_experiment(data)


def main() -> None:
    """Train the jobs of a JSON argument; print each epoch, then sleep for the seconds of the second argument."""
    from dgn.training.trainer import train

    def report_epoch(report: EpochReport) -> None:
        print(f"epoch {report.epoch}", flush=True)  # noqa: T201
        time.sleep(float(sys.argv[2]))

    for job in json.loads(sys.argv[1]):
        experiment = read_experiment(job["experiment"])
        results = train(
            experiment,
            make_benchmark(job["objective"]),
            job["seeds"],
            Path(job["out"]),
            "cpu",
            report_epoch,
            save_every=0,
        )
        print("history", json.dumps([result.history for result in results]), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
