"""Learning the nodes of one graph: the coordinates of a road network, the words of a dictionary.

``python -m benchmarks.fields.one_graph FOLDER`` prints test scores of networks with the same parameters, with
and without directions. Minnesota: longitude and latitude of each junction, from those of a tenth of them and ten
eigenvectors as features. WordNet: whether a node is a word or a set of synonyms, from the degree alone; one in ten
labels is known.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch_geometric.data import Data
from torch_geometric.utils import degree, to_undirected

import dgn
from dgn.data import Benchmark, benchmark_from_graphs
from dgn.training.experiment import read_experiment

AGGREGATORS = {"mean max": ("mean", "max"), "mean dx1": ("mean", "dx1"), "mean dx1-signed": ("mean", "dx1-signed")}


def load(folder: Path, name: str) -> tuple[Data, dict[str, np.ndarray]]:
    """A graph without features, and all arrays of its file."""
    arrays = dict(np.load(folder / name))
    edge_index = to_undirected(torch.from_numpy(arrays["edge_index"]).long())
    return Data(edge_index=edge_index, num_nodes=int(arrays["num_nodes"])), arrays


def with_masks(data: Data, seed: int = 0) -> Data:
    """The graph with 10, 10 and 80 percent of its nodes for training, validation and test."""
    draw = torch.rand(data.num_nodes, generator=torch.Generator().manual_seed(seed))
    data.train_mask, data.val_mask, data.test_mask = draw < 0.1, (draw >= 0.1) & (draw < 0.2), draw >= 0.2
    return data


def minnesota(folder: Path) -> Benchmark:
    data, arrays = load(folder, "minnesota.npz")
    position = torch.from_numpy(arrays["xy"]).float()
    data.y = (position - position.mean(dim=0)) / position.std(dim=0)
    data.x = torch.ones(data.num_nodes, 1)
    return benchmark_from_graphs(with_masks(data), "node-regression")


def wordnet(folder: Path) -> Benchmark:
    data, arrays = load(folder, "wordnet31_synsets_words.npz")
    data.y = (torch.arange(data.num_nodes) >= int(arrays["num_synsets"])).long()
    data.x = degree(data.edge_index[1], data.num_nodes).log1p()[:, None]
    return benchmark_from_graphs(with_masks(data), "node-classification")


TASKS = {
    "Minnesota, MAE in deviations": (minnesota, {"num_eigenvector_features": 10, "hidden": 32, "num_layers": 4}, 300),
    "WordNet, balanced accuracy": (wordnet, {"hidden": 16, "num_layers": 2}, 60),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=float, default=1.0, help="factor on the numbers of epochs")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()

    print("| graph | aggregators | parameters | test | seconds an epoch |\n|---|---|---|---|---|")
    for title, (make, network, epochs) in TASKS.items():
        benchmark = make(options.folder)
        for name, aggregators in AGGREGATORS.items():
            experiment = read_experiment({
                "name": "one-graph",
                "data": {"dataset": "own"},
                "network": {**network, "aggregators": list(aggregators), "readout": "nodes"},
                "training": {"epochs": int(epochs * options.epochs), "learning_rate": 0.01, "batch_size": 1},
            })  # fmt: skip
            with tempfile.TemporaryDirectory() as out:
                seeds = list(range(options.seeds))
                runs = dgn.train_experiment(experiment, out, benchmark, seeds=seeds, device=options.device)
            scores = torch.tensor([run.metrics["test"][benchmark.metric] for run in runs])
            print(
                f"| {title} | {name} | {runs[0].parameters:,} | {scores.mean():.3f} ± {scores.std():.3f} "
                f"| {runs[0].seconds / sum(run.epochs for run in runs):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
