"""Networks that were trained, read again from their run folders and asked about the graphs of a part."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmarks import Benchmark
from dgn.graph.checks import check_option
from dgn.nn import DGN
from dgn.training.build import build_network
from dgn.training.checkpoint import load_checkpoint
from dgn.training.devices import choose_device, matrix_precision
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.load import load_graphs
from dgn.training.material import SPLITS, prepare

MODEL = "model.safetensors"


class Trained(NamedTuple):
    """A network as it was scored, in evaluation mode, its experiment, its graphs, and its scores of every part."""

    experiment: Experiment
    network: DGN
    benchmark: Benchmark
    metrics: dict[str, dict[str, float]]


class Predicted(NamedTuple):
    """What a network says, and what is so: a row for each graph of a part, or for each of its nodes.

    Shapes:
        ``said`` [R, T]; ``truth`` [R, T], or [R] where it is the number of one of T classes.
    """

    said: Tensor
    truth: Tensor


def load_trained(folder: str | Path, data: Benchmark | str | Path | None = None) -> Trained:
    """The network of one seed, from a folder such as ``runs/zinc/plus/seed-1``.

    Its encoders depend on the graphs that it was trained with. They are loaded from where they were then; ``data``
    is another place, or the graphs themselves. Reading a network runs no code from its file.
    """
    path = Path(folder) / MODEL
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: expected the folder of a finished seed, such as runs/zinc/plus/seed-1, got none with {MODEL}; "
            "name another, or finish the training"
        )
    weights, about = load_checkpoint(path)
    experiment = read_experiment(about["experiment"])
    if isinstance(data, str | Path):
        experiment = replace(experiment, data=replace(experiment.data, path=str(data)))
    benchmark = data if isinstance(data, Benchmark) else load_graphs(experiment)
    network = build_network(experiment.network, benchmark, about["delta"])
    try:
        network.load_state_dict(weights)
    except RuntimeError as problem:
        raise ValueError(
            f"{path}: expected weights for the graphs of {experiment.data.dataset}, got others; name the data it was "
            f"trained with. {problem}"
        ) from problem
    return Trained(experiment, network.eval(), benchmark, about["metrics"])


def predict_part(trained: Trained, part: str, device: str = "auto") -> Predicted:
    """What a network says of the graphs of ``part``: train, val or test, in the order of the dataset.

    Law: scores of it are those of the run, up to rounding.
    """
    check_option("part", part, SPLITS)
    chosen, network = choose_device(device), trained.network
    with matrix_precision(trained.experiment.training.precision):
        split = prepare(trained.experiment, trained.benchmark, chosen).splits[part]
        network.to(chosen)
        for number, words in enumerate(split.batches.words):
            split.step(network, words, torch.tensor([number]))
    said, truth = split.said().cpu(), split.target.cpu()
    of_classes = trained.benchmark.objective.endswith("classification")
    return Predicted(said, truth if of_classes else truth.view_as(said))
