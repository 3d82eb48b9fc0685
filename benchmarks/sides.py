"""What it is worth to answer for both sides of a picture: ``python benchmarks/sides.py RUN [--data PATH]``.

For each finished seed of a run with ``network.tta_mirror``, validation scores and losses of its answers for the graphs
as they are and of the mean over graphs and mirror images, and how often the two sides of a graph get the same class.
"""

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import torch

from dgn.training.inference import load_trained, predict_split
from dgn.training.objectives import make_objective
from dgn.training.run_folder import finished_runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--data", type=Path)
    asked = parser.parse_args()
    rows, known = [], asked.data
    for seed in sorted(finished_runs(asked.run)):
        trained = load_trained(asked.run / f"seed-{seed}", known)
        known, experiment = trained.benchmark, trained.experiment
        objective = make_objective(known.objective, experiment.training.metric or known.metric)
        if not experiment.network.both_sides:
            sys.exit(f"{asked.run}: expected a run with network.tta_mirror, got one without; name another")
        plain = replace(experiment, network=replace(experiment.network, tta_mirror=False))
        both, truth = predict_split(trained, "val")
        one, _ = predict_split(trained._replace(experiment=plain), "val")
        other = 2 * both - one
        scores = [objective.metric(said, truth) for said in (one, both)]
        losses = [float(torch.div(*objective.loss(said, truth, torch.ones(len(said))))) for said in (one, both)]
        agree = float((one.argmax(dim=1) == other.argmax(dim=1)).float().mean())
        rows.append([*scores, *losses, agree])
        print(f"seed {seed:<4}", " ".join(f"{value:8.4f}" for value in rows[-1]), flush=True)
    if not rows:
        sys.exit(f"{asked.run}: expected a run with finished seeds, got none; name another")
    print(f"{'mean':<9}", " ".join(f"{value:8.4f}" for value in torch.tensor(rows).mean(dim=0).tolist()))
    print(f"columns: {objective.metric_name} of one side, of both, loss of one side, of both, same class on both sides")


if __name__ == "__main__":
    main()
