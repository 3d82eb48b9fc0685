"""Several networks trained side by side on the molecules of a table."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmark import ATOMS, BONDS, Benchmark
from dgn.data.packed import PackedGraphs
from dgn.molecules.columns import Task
from dgn.training.checkpoint import MODEL, load_checkpoint
from dgn.training.experiment import Experiment
from dgn.training.run import EpochReport, RunResult
from dgn.training.trainer import train


class TrainedModel(NamedTuple):
    """The weights of each member, the mean log degree they were scaled by, and how their training went."""

    weights: list[dict[str, Tensor]]
    delta: float
    results: list[RunResult]


def train_ensemble(
    experiment: Experiment,
    benchmark: Benchmark,
    folder: Path,
    device: str = "auto",
    on_epoch: Callable[[EpochReport], None] | None = None,
    on_resume: Callable[[str], None] | None = None,
) -> TrainedModel:
    """Train one member for each seed of the experiment; those that are finished in the folder are read."""
    seeds = experiment.training.seeds
    results = train(experiment, benchmark, seeds, folder, device, on_epoch, on_resume=on_resume)
    loaded = [load_checkpoint(folder / f"seed-{seed}" / MODEL) for seed in seeds]
    return TrainedModel([tensors for tensors, _ in loaded], float(loaded[0][1]["delta"]), results)


def make_benchmark(graphs: PackedGraphs, values: Tensor, part: Tensor, task: Task) -> Benchmark:
    """Training molecules (part 0) and validation molecules (part 1) as the training loop takes them.

    ``values`` [R, T] are what the networks are to say: numbers near 0, or 0 and 1; NaN where unknown.
    The loop wants a test part too: the validation molecules stand there again, for what is held out stays held out.
    """
    training, validation = ((part == number).nonzero()[:, 0] for number in (0, 1))
    chosen = torch.cat([training, validation, validation])
    sizes = torch.tensor([len(training), len(validation), len(validation)])
    split = torch.arange(3, dtype=torch.uint8).repeat_interleave(sizes)
    shown = graphs.select(chosen).with_values(graphs={"y": values[chosen].float(), "split": split})
    objective, metric = ("regression", "mae") if task == "regression" else ("multi-label", "roc-auc")
    return Benchmark("table", shown, objective, metric, values.size(1), ATOMS, BONDS)
