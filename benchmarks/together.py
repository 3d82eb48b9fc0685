"""What the seeds of a run say together, on the validation graphs: whether branches would pay.

    python benchmarks/together.py RUN [RUN ...]

For each run folder the scores of its seeds, their mean, and the score of the mean of what the first 2, 3, ... of them
say: means over the folders, such as folds of the same settings, as far as the one with the fewest seeds goes.
"""

import sys
from pathlib import Path
from statistics import fmean

import torch

from dgn.training.inference import load_trained, predict_split
from dgn.training.objectives import make_objective
from dgn.training.run_folder import finished_runs


def scores(folder: Path) -> list[float]:
    """The mean score of single seeds, then that of the first 2, 3, ... together."""
    said, known = [], None
    for seed in sorted(finished_runs(folder)):
        trained = load_trained(folder / f"seed-{seed}", known)
        known = trained.benchmark  # the same for all seeds
        predicted = predict_split(trained, "val")
        said.append(predicted.said)
    if known is None:
        sys.exit(f"{folder}: expected a run with finished seeds, got none; name another")
    objective = make_objective(known.objective, trained.experiment.training.metric or known.metric)
    every = torch.stack(said)
    alone = [objective.metric(one, predicted.truth) for one in every]
    print(f"{folder}: {objective.metric_name} {', '.join(f'{score:.4f}' for score in alone)}", flush=True)
    together = [objective.metric(every[:count].mean(dim=0), predicted.truth) for count in range(2, len(every) + 1)]
    return [fmean(alone), *together]


def main(folders: list[str]) -> None:
    if not folders:
        sys.exit(__doc__)
    found = [scores(Path(folder)) for folder in folders]
    for count, column in enumerate(zip(*found, strict=False), start=1):
        name = "alone" if count == 1 else f"{count} together"
        print(f"{name:<12} {fmean(column):.4f}")


if __name__ == "__main__":
    main(sys.argv[1:])
