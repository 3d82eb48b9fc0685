"""Whether starting from a pretrained network helps on small tables of molecules.

    python -m benchmarks.molecules.finetune pack TABLES --out packed    # needs RDKit: graphs and five scaffold splits
    python -m benchmarks.molecules.finetune train packed --from molpcba/small --out runs/finetune [--parallel 4]

Four networks are trained on each split: that of ``dgn fit``; that of the pretrained network, from random weights; the
same from the pretrained weights; and from them with all but the head frozen. All take the schedule of ``dgn fit`` for
tables of this size. Molecules of a test split that the pretrained network has seen are not left out: its labels were
others. Finished runs are not trained again. At the end, means and standard deviations over splits are printed.
"""

import argparse
import csv
import gzip
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import torch

import dgn
from dgn.data.benchmark import ATOMS, BONDS, Benchmark
from dgn.data.datasets.smiles import OGB, pack_smiles
from dgn.data.io.sources import load_graphs
from dgn.data.packed import PackedGraphs
from dgn.data.splits import scaffold, scaffold_split
from dgn.molecules.defaults import default_experiment
from dgn.training.experiment import Experiment
from dgn.training.finetune import start_from
from dgn.training.model_io import find_model, read_model
from dgn.training.pretrained import find_network
from dgn.training.run_experiment import train_experiment

TABLES = {"freesolv": "regression", "delaney": "regression", "bace": "multi-label", "bbbp": "multi-label"}
METRICS = {"regression": "mae", "multi-label": "roc-auc"}
NETWORKS = ("network of dgn fit", "pretrained network, random weights", "fine-tuned", "fine-tuned, head alone")
SPLITS = range(5)


def pack(tables: Path, out: Path) -> None:
    """Packed graphs of every table with OGB's features, targets and all splits."""
    out.mkdir(parents=True, exist_ok=True)
    for name in TABLES:
        with gzip.open(tables / f"{name}.csv.gz", "rt") as file:
            rows = [list(row.values()) for row in csv.DictReader(file)]
        smiles = [row[0] for row in rows]
        scaffolds = [scaffold(molecule) for molecule in smiles]
        splits = torch.stack([scaffold_split(scaffolds, seed=seed) for seed in SPLITS], dim=1)
        y = torch.tensor([[float(row[1])] for row in rows])
        graphs = pack_smiles(smiles).with_values(graphs={"y": y, "splits": splits})
        graphs.save(out / f"{name}.npz")
        print(f"{name}: {graphs}")


def benchmark(graphs: PackedGraphs, objective: str, split: int) -> tuple[Benchmark, float]:
    """The graphs with one of their splits, targets of regression in standard deviations, and that deviation."""
    y, assignment, scale = graphs.graphs["y"], graphs.graphs["splits"][:, split].to(torch.uint8), 1.0
    if objective == "regression":
        training = y[assignment == 0]
        scale = float(training.std())
        y = (y - training.mean()) / scale
    else:
        y = y.to(torch.int8)
    data = replace(graphs, graphs={"y": y, "split": assignment})
    return Benchmark("own", data, objective, METRICS[objective], 1, ATOMS, BONDS, featurization=OGB), scale


def experiments(objective: str, molecules: int, seed: int, source: str) -> dict[str, Experiment]:
    """The four networks, by name."""
    task: Any = "regression" if objective == "regression" else "binary"
    plain = default_experiment(molecules, (seed,), "own", task)
    tuned = start_from(plain, read_model(find_model(find_network(source))), source, freeze=False)
    scratch = replace(tuned, training=plain.training)
    frozen = replace(tuned, training=replace(tuned.training, freeze=True))
    return dict(zip(NETWORKS, (plain, scratch, tuned, frozen), strict=True))


def train(name: str, split: int, arguments: argparse.Namespace) -> dict[str, float]:
    """The test scores of all networks on one split of a table."""
    objective = TABLES[name]
    data, scale = benchmark(load_graphs(arguments.packed / f"{name}.npz"), objective, split)
    molecules, metric, scores = int((data.graphs.graphs["split"] == 0).sum()), METRICS[objective], {}
    for title, experiment in experiments(objective, molecules, split, arguments.source).items():
        folder = arguments.out / f"{name}-{split}" / str(NETWORKS.index(title))
        run = train_experiment(experiment, folder, data, device=arguments.device)[0]
        scores[title] = scale * run.metrics["test"][metric]
    print(f"{name}, split {split}: {', '.join(f'{score:.4f}' for score in scores.values())}", flush=True)
    return scores


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("tables", type=Path, help="folder of MoleculeNet's tables, .csv.gz")
    packing.add_argument("--out", type=Path, required=True)
    training = commands.add_parser("train")
    training.add_argument("packed", type=Path)
    training.add_argument("--from", dest="source", default="molpcba/small", help="name or folder of a network")
    training.add_argument("--out", type=Path, default=Path("runs/finetune"))
    training.add_argument("--device", default="auto")
    training.add_argument("--parallel", type=int, default=1, help="processes")
    arguments = parser.parse_args()
    if arguments.command == "pack":
        pack(arguments.tables, arguments.out)
        return
    names, splits = zip(*product(TABLES, SPLITS), strict=True)
    with ProcessPoolExecutor(arguments.parallel, get_context("spawn")) as pool:
        results = list(pool.map(train, names, splits, [arguments] * len(names)))
    print(
        f"dgn {dgn.__version__}, from {arguments.source}\n\n| | {' | '.join(NETWORKS)} |\n|---|{'---|' * len(NETWORKS)}"
    )
    for name in TABLES:
        rows = [scores for each, scores in zip(names, results, strict=True) if each == name]
        columns = [[row[title] for row in rows] for title in NETWORKS]
        texts = [f"{fmean(column):.3f} ± {stdev(column):.3f}" for column in columns]
        print(f"| {name}, {METRICS[TABLES[name]]} | {' | '.join(texts)} |")


if __name__ == "__main__":
    main()
