"""Training of the members of an ensemble. Apart from prediction, which does not load Lightning."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmark import ATOMS, BONDS, Benchmark
from dgn.data.packed import PackedGraphs
from dgn.molecules.columns import Task
from dgn.training.experiment import Experiment
from dgn.training.model import TrainedModel, join, load_trained
from dgn.training.run import EpochReport, RunResult
from dgn.training.trainer import train
from dgn.tuning.space import Value


class TrainedEnsemble(NamedTuple):
    """The members as one model, the results of their training, its seconds, and the trials of a search."""

    model: TrainedModel
    results: list[RunResult]
    seconds: float
    trials: Sequence[dict[str, Value]] = ()


def train_ensemble(
    experiment: Experiment,
    benchmark: Benchmark,
    folder: Path,
    device: str = "auto",
    on_epoch: Callable[[EpochReport], None] | None = None,
    on_resume: Callable[[str], None] | None = None,
) -> TrainedEnsemble:
    """Train one member per seed of the experiment; those that are finished in the folder are read."""
    seeds = experiment.training.seeds
    results = train(experiment, benchmark, seeds, folder, device, on_epoch, on_resume=on_resume)
    model = join([load_trained(folder / f"seed-{seed}", device) for seed in seeds])
    return TrainedEnsemble(model, results, max(result.seconds for result in results))


def is_paired(graphs: PackedGraphs) -> bool:
    """Whether graphs are those of pairs of molecules, whose atoms have one more feature."""
    return graphs.nodes["x"].size(1) > len(ATOMS)


OBJECTIVES: dict[Task, tuple[str, str]] = {  # and the metric that chooses the epoch
    "regression": ("regression", "mae"),
    "binary": ("multi-label", "roc-auc"),
    "multi-label": ("multi-label", "roc-auc"),
    "multiclass": ("classification", "balanced-accuracy"),
}


def make_benchmark(
    graphs: PackedGraphs, values: Tensor, split: Tensor, task: Task, featurization: str, outputs: int
) -> Benchmark:
    """The training split (0) and the validation split (1) as a benchmark for the training loop.

    ``values`` [R, T] are standardized numbers, or labels from 0; NaN where missing. The loop needs a test split too: it
    is a copy of the validation split, so that the molecules held out are never seen.
    """
    training, validation = ((split == index).nonzero()[:, 0] for index in (0, 1))
    rows = torch.cat([training, validation, validation])
    sizes = torch.tensor([len(training), len(validation), len(validation)])
    splits = torch.arange(3, dtype=torch.uint8).repeat_interleave(sizes)
    y = values[rows, 0].long() if task == "multiclass" else values[rows].float()
    labelled = graphs.select(rows).with_values(graphs={"y": y, "split": splits})
    atoms = (*ATOMS, 2) if is_paired(graphs) else ATOMS
    return Benchmark("table", labelled, *OBJECTIVES[task], outputs, atoms, BONDS, featurization=featurization)
