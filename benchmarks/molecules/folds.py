"""Comparison of settings of dgn fit on folds of a table's training and validation molecules.

    python -m benchmarks.molecules.one_table TABLE --out FOLDER --prepare
    python -m benchmarks.molecules.folds benchmarks/choices/muv.yaml FOLDER [--folds 0,1,2] [--members 3]

The test molecules of FOLDER are not used. Of the others, random scaffolds are validation molecules, up to a fifth of
them; scaffolds of more than 2 % are always training molecules. The file lists overrides of the default settings:
shared ones, and those of each candidate. For each candidate, the scores of the last epoch for each fold and their mean
are printed, for single networks, averaged over ``--members``.
"""

import argparse
import random
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import yaml

from benchmarks.molecules.contenders import read_prepared
from benchmarks.molecules.one_table import PREPARED
from dgn.data.datasets.smiles import CENTRES
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import with_encodings
from dgn.data.splits import group, scaffold
from dgn.molecules.defaults import default_experiment
from dgn.molecules.ensemble_training import make_benchmark
from dgn.molecules.rows import Molecules, TableData, take
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.run import EpochReport
from dgn.training.trainer import train

TASK = "multi-label"
SHARE, LARGEST = 0.2, 0.02  # of the molecules: the validation split, and the largest scaffold in it
SCORES = ("roc-auc", "average-precision")


def read_without_test(folder: Path) -> TableData:
    """The prepared table without its test molecules."""
    data = read_prepared(folder / PREPARED, TASK)
    assert data.molecules.split is not None
    rows = [row for row, split in enumerate(data.molecules.split) if split != "test"]
    return replace(data, molecules=replace(take(data.molecules, torch.tensor(rows)), split=None))


def draw_splits(molecules: Molecules, folds: list[int]) -> Iterator[torch.Tensor]:
    """For each fold, 0 for training and 1 for validation molecules."""
    groups = list(group(map(scaffold, molecules.smiles)).values())
    for fold in folds:
        split = torch.zeros(len(molecules.smiles), dtype=torch.uint8)
        shuffled = list(groups)
        random.Random(fold).shuffle(shuffled)
        for rows in shuffled:
            if split.sum() >= SHARE * len(split):
                break
            if len(rows) <= LARGEST * len(split):
                split[rows] = 1
        yield split


def make_candidates(choices: dict[str, Any], molecules: int, seeds: tuple[int, ...]) -> dict[str, Experiment]:
    default = default_experiment(molecules, seeds, "table", TASK).to_dict()
    shared = choices["shared"]
    candidates = {name: read_experiment(default, [*shared, *own]) for name, own in choices["candidates"].items()}
    return {"default": read_experiment(default), **candidates}


def last_scores(
    experiment: Experiment, graphs: PackedGraphs, values: torch.Tensor, split: torch.Tensor, device: str
) -> list[float]:
    """Scores of the validation molecules after the last epoch, as means over the seeds."""
    inputs = experiment.data
    last: dict[int, dict[str, float]] = {}

    def on_epoch(report: EpochReport) -> None:
        last[report.seed] = report.metrics

    benchmark = make_benchmark(graphs, values, split, TASK, CENTRES, values.size(1))
    benchmark = with_encodings(benchmark, inputs.rwse_steps, inputs.ring_sizes)
    with tempfile.TemporaryDirectory() as folder:
        train(experiment, benchmark, experiment.training.seeds, Path(folder), device, on_epoch)
    return [fmean(metrics[score] for metrics in last.values()) for score in SCORES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("choices", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--folds", default="0,1,2")
    parser.add_argument("--members", type=int, default=3)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    data, folds = read_without_test(arguments.folder), list(map(int, arguments.folds.split(",")))
    splits = list(draw_splits(data.molecules, folds))
    candidates = make_candidates(
        yaml.safe_load(arguments.choices.read_text()), int((splits[0] == 0).sum()), tuple(range(arguments.members))
    )
    graphs = add_directions(data.molecules.graphs, max(candidate.num_directions for candidate in candidates.values()))
    print(f"{'candidate':<16} {', '.join(SCORES)} for folds {arguments.folds}, and the mean")
    for name, experiment in candidates.items():
        scores = [last_scores(experiment, graphs, data.molecules.values, split, arguments.device) for split in splits]
        scores.append([fmean(values) for values in zip(*scores, strict=True)])
        print(f"{name:<16} {'  '.join(' '.join(f'{value:.3f}' for value in fold) for fold in scores)}", flush=True)


if __name__ == "__main__":
    main()
