"""The gain of test-time augmentation by mirroring: ``python -m benchmarks.choices.sides RUN [--data PATH]``.

For each finished seed of a run with ``network.tta_mirror``: validation scores and losses without and with the mean over
graphs and mirror images, and how often a graph and its mirror image get the same class.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch

from dgn.training.experiment import load_experiment
from dgn.training.load import load_graphs
from dgn.training.model import load_trained, predict_split
from dgn.training.objectives import make_objective
from dgn.training.run_folder import EXPERIMENT, finished_runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    arguments = parser.parse_args()
    changes = [f"data.path={arguments.data}"] if arguments.data else []
    rows, data = [], load_graphs(load_experiment(arguments.run / EXPERIMENT, changes))
    for seed in sorted(finished_runs(arguments.run)):
        trained = load_trained(arguments.run / f"seed-{seed}")
        experiment = trained.experiment
        objective = make_objective(trained.signature.objective, trained.signature.metric)
        if not experiment.network.tta_mirror:
            sys.exit(f"{arguments.run}: expected a run with network.tta_mirror, got one without; name another")
        plain = replace(experiment, network=replace(experiment.network, tta_mirror=False))
        both, target = predict_split(trained, data, "val")
        one, _ = predict_split(replace(trained, experiment=plain), data, "val")
        other = 2 * both - one
        scores = [objective.metric(prediction, target) for prediction in (one, both)]
        weight = torch.ones(len(target))
        losses = [float(torch.div(*objective.loss(prediction, target, weight))) for prediction in (one, both)]
        agree = float((one.argmax(dim=1) == other.argmax(dim=1)).float().mean())
        rows.append([*scores, *losses, agree])
        print(f"seed {seed:<4}", " ".join(f"{value:8.4f}" for value in rows[-1]), flush=True)
    if not rows:
        sys.exit(f"{arguments.run}: expected a run with finished seeds, got none; name another")
    print(f"{'mean':<9}", " ".join(f"{value:8.4f}" for value in torch.tensor(rows).mean(dim=0).tolist()))
    print(f"columns: {objective.metric_name} and loss, each without and with mirroring; same class of both images")


if __name__ == "__main__":
    main()
