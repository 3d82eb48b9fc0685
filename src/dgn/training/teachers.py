"""Learning from networks that were trained before: what they say of a graph is part of its label."""

from pathlib import Path

import torch
from torch.nn.functional import one_hot, softmax

from dgn.data.benchmarks import Benchmark, with_fraction
from dgn.training.checkpoint import MODEL, load_checkpoint
from dgn.training.evaluate import LESSONS
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.material import Material
from dgn.training.trained import load_trained, predict_graphs


def teach(material: Material, experiment: Experiment, benchmark: Benchmark, device: str) -> Material:
    r"""The material with lessons in the place of labels: a distribution over the classes for each training graph.

    .. math:: (1 - t) \left[ (1 - s) \, [k = c] + \frac{s}{C} \right] + \frac{t}{M} \sum_m p_m(k)

    for class k of C, with the label c, its smoothing s, the share t of ``training.teaching`` and M teachers; where a
    label is missing, teachers are all there is. They see each graph as it is, while the learner sees it as augmentation
    makes it. Scores are of the labels, as always.
    """
    settings = experiment.training
    if settings.teachers is None:
        return material
    if benchmark.objective != "classification":
        raise ValueError(
            f"training.teachers: expected graphs with classes, got {benchmark.objective}; leave it out for this data"
        )
    every, numbers = with_fraction(benchmark, experiment.data.train_fraction).graphs, material.training
    graphs = every.select(numbers)
    said = torch.zeros(len(numbers), benchmark.targets)
    folders = find_teachers(settings.teachers)
    for folder in folders:
        _check_share(folder, benchmark)
        said += softmax(predict_graphs(load_trained(folder, benchmark), graphs, device), dim=1) / len(folders)
    number, smoothing = graphs.graphs["y"].flatten().long(), settings.label_smoothing
    label = (1 - smoothing) * one_hot(number.clamp(min=0), benchmark.targets) + smoothing / benchmark.targets
    share = torch.where(number < 0, 1.0, settings.teaching)[:, None]
    lessons = torch.zeros(len(every), benchmark.targets)  # nobody learns from the other parts
    lessons[numbers] = (1 - share) * label + share * said
    material.store.graphs[LESSONS] = lessons.to(material.store.device)
    return material._replace(objective=material.objective.smoothed(0.0))


def _check_share(folder: Path, benchmark: Benchmark) -> None:
    """A teacher is built for the graphs that it was trained with, which are all here."""
    known = read_experiment(load_checkpoint(folder / MODEL)[1]["experiment"]).data.train_fraction
    if known > benchmark.fraction:
        raise ValueError(
            f"training.teachers: expected networks trained with at most {benchmark.fraction:g} of the training graphs, "
            f"as are loaded here, got {known:g} for {folder}; raise data.train_fraction, or train other teachers"
        )


def find_teachers(folder: str) -> list[Path]:
    """The folders of the finished seeds of a run."""
    found = sorted(path.parent for path in Path(folder).glob(f"seed-*/{MODEL}"))
    if not found:
        raise FileNotFoundError(
            f"training.teachers: expected the folder of a run with finished seeds, got {folder} without any; train "
            f"them first, for example with dgn train {folder.removeprefix('runs/')}"
        )
    return found
