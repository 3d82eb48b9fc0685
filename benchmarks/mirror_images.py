"""What it is worth to ask a network about the mirror image of each graph as well.

    python benchmarks/mirror_images.py runs/cifar10/plus [--part test] [--data FOLDER]

The folder has finished seeds. Each network is asked twice: once about the graphs alone, once with the mean over both.
"""

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from dgn.training.material import SPLITS
from dgn.training.objectives import make_objective
from dgn.training.trained import Trained, load_trained, predict_part


def score(trained: Trained, part: str, mirrored: bool) -> float:
    experiment = trained.experiment
    network = replace(experiment.network, mirrored=mirrored)
    said, truth = predict_part(trained._replace(experiment=replace(experiment, network=network)), part)
    metric = experiment.training.metric or trained.benchmark.metric
    return make_objective(trained.benchmark.objective, metric).metric(said, truth)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--part", default="test", choices=SPLITS)
    parser.add_argument("--data")
    asked = parser.parse_args()
    rows, graphs, folders = [], asked.data, sorted(asked.folder.glob("seed-*"))
    if not folders:
        parser.error(f"{asked.folder}: expected a folder with finished seeds, got none; name another")
    for folder in folders:
        trained = load_trained(folder, graphs)
        graphs = trained.benchmark  # the same for all seeds
        rows.append([score(trained, asked.part, mirrored) for mirrored in (False, True)])
        print(f"{folder.name:<8} alone {rows[-1][0]:.4f}, both {rows[-1][1]:.4f}", flush=True)
    alone, both = map(fmean, zip(*rows, strict=True))
    print(f"{'mean':<8} alone {alone:.4f}, both {both:.4f}")


if __name__ == "__main__":
    main()
