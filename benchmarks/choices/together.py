"""Ensembles of the seeds of a run on the validation split: whether ``network.ensemble_size`` would pay.

    python -m benchmarks.choices.together RUN [RUN ...]

For each run folder: the scores of its seeds, their mean, and the score of the mean prediction of the first 2, 3, ...
seeds. These are averaged over the folders, such as folds of the same settings, up to the smallest number of seeds.
"""

import sys
from pathlib import Path
from statistics import fmean

import torch

from dgn.training.experiment import load_experiment
from dgn.training.load import load_graphs
from dgn.training.model import load_trained, predict_split
from dgn.training.objectives import make_objective
from dgn.training.run_folder import EXPERIMENT, finished_runs


def scores(folder: Path) -> list[float]:
    """The mean score of single seeds, then those of ensembles of the first 2, 3, ... seeds."""
    predictions, benchmark = [], load_graphs(load_experiment(folder / EXPERIMENT))
    for seed in sorted(finished_runs(folder)):
        trained = load_trained(folder / f"seed-{seed}")
        prediction, target = predict_split(trained, benchmark, "val")
        predictions.append(prediction)
    if not predictions:
        sys.exit(f"{folder}: expected a run with finished seeds, got none; name another")
    objective = make_objective(trained.signature.objective, trained.signature.metric)
    members = torch.stack(predictions)
    alone = [objective.metric(member, target) for member in members]
    print(f"{folder}: {objective.metric_name} {', '.join(f'{score:.4f}' for score in alone)}", flush=True)
    together = [objective.metric(members[:count].mean(dim=0), target) for count in range(2, len(members) + 1)]
    return [fmean(alone), *together]


def main(folders: list[str]) -> None:
    if not folders:
        sys.exit(__doc__)
    rows = [scores(Path(folder)) for folder in folders]
    for count, column in enumerate(zip(*rows, strict=False), start=1):
        name = "alone" if count == 1 else f"{count} together"
        print(f"{name:<12} {fmean(column):.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
