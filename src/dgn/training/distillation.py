"""Distillation: soft targets from the predictions of trained networks, the teachers."""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import one_hot, softmax

from dgn.data.benchmark import Benchmark, with_fraction
from dgn.data.packed import PackedGraphs
from dgn.training.evaluate import SOFT_TARGETS
from dgn.training.experiment import Experiment
from dgn.training.model import TrainedModel, load_trained
from dgn.training.model_io import FOLDER
from dgn.training.objectives import make_objective
from dgn.training.pretrained import CONFIGURATION
from dgn.training.shared_data import SharedData

TOLERANCE = 0.01  # by which a teacher's score may differ from that of its run, on another device


def add_soft_targets(
    shared: SharedData, experiment: Experiment, benchmark: Benchmark, out: Path | None, device: torch.device
) -> SharedData:
    r"""The shared data with soft targets: a distribution over the classes for each training graph.

    .. math:: (1 - t) \left[ (1 - s) \, [k = c] + \frac{s}{C} \right] + \frac{t}{M} \sum_m p_m(k)

    for class k of C, with the label c, its smoothing s, the weight t of ``training.distill_weight`` and M teachers.
    Where a label is missing, the target is the teachers' alone. Teachers see each graph without augmentation, the
    student with it. Scores are computed with the labels.
    """
    settings = experiment.training
    if settings.distill_from is None:
        return shared
    if benchmark.objective != "classification":
        raise ValueError(
            f"training.distill_from: expected graphs with classes, got {benchmark.objective}; leave it out for this "
            "data"
        )
    all_graphs, index = with_fraction(benchmark, experiment.data.train_fraction).graphs, shared.training
    graphs = all_graphs.select(index)
    folders = find_teacher_runs(experiment, out)
    probability = torch.zeros(len(index), benchmark.num_targets)
    for folder in folders:
        probability += softmax(_predict(folder, benchmark, graphs, device), dim=1) / len(folders)
    label, smoothing = graphs.graphs["y"].flatten().long(), settings.label_smoothing
    hard = (1 - smoothing) * one_hot(label.clamp(min=0), benchmark.num_targets) + smoothing / benchmark.num_targets
    weight = torch.where(label < 0, 1.0, settings.distill_weight)[:, None]
    soft_targets = torch.zeros(len(all_graphs), benchmark.num_targets)  # only training graphs have them
    soft_targets[index] = (1 - weight) * hard + weight * probability
    shared.store.graphs[SOFT_TARGETS] = soft_targets.to(shared.store.device)
    return shared._replace(objective=shared.objective.smoothed(0.0))


def find_teacher_runs(experiment: Experiment, out: Path | None = None) -> list[Path]:
    """The folders of the trained seeds of the run that ``training.distill_from`` names.

    Runs share a root folder: with the experiment ``zinc/mine`` in ``root/zinc/mine``, the run ``zinc/other`` is looked
    for in ``root/zinc/other``, else in ``runs/zinc/other``; then as a path relative to the working directory.
    """
    name, student = str(experiment.training.distill_from), Path(experiment.name).parts
    root = Path("runs")
    if out is not None and out.parts[-len(student) :] == student:
        root = out.parents[len(student) - 1]
    for path in (root / name, Path(name)):
        if folders := sorted(file.parents[1] for file in path.glob(f"seed-*/{FOLDER}/{CONFIGURATION}")):
            return folders
    raise FileNotFoundError(
        f"training.distill_from: expected a run with trained seeds, got none in {root / name} nor in {Path(name)}; "
        f"train it first, as with dgn train {name}, or name the folder of another"
    )


def _predict(folder: Path, benchmark: Benchmark, graphs: PackedGraphs, device: torch.device) -> Tensor:
    """Predictions of one teacher on the training graphs."""
    try:
        teacher = load_trained(folder, str(device))
        _check_task(teacher, benchmark)
        prediction = teacher.outputs(graphs).mean(dim=0)
    except ValueError as problem:
        raise ValueError(
            f"training.distill_from: expected networks that were trained with these graphs, got {folder}: {problem}"
        ) from problem
    _check_score(teacher, folder, prediction, graphs)
    return prediction


def _check_task(teacher: TrainedModel, benchmark: Benchmark) -> None:
    """Refuse a teacher of other classes."""
    expected = benchmark.objective, benchmark.num_targets
    got = teacher.signature.objective, teacher.signature.inputs.targets
    if got != expected:
        raise ValueError(
            f"objective: expected {expected[0]} with {expected[1]} classes, got {got[0]} with {got[1]} outputs; name a "
            "run of the same graphs"
        )


def _check_score(teacher: TrainedModel, folder: Path, prediction: Tensor, graphs: PackedGraphs) -> None:
    """Refuse a teacher whose score here is not that of its run: other labels or splits are another task."""
    if teacher.facts["graphs"]["train"] != len(graphs):  # trained with more graphs, or with fewer
        return
    objective = make_objective(teacher.signature.objective, teacher.signature.metric)
    score = objective.metric(prediction, graphs.graphs["y"])
    run_score = teacher.metrics["train"][objective.metric_name]
    if abs(score - run_score) > TOLERANCE:
        raise ValueError(
            f"training.distill_from: expected networks that were trained with these labels, got {folder}, whose "
            f"training {objective.metric_name} is {score:.4f} here and was {run_score:.4f}; name a run of the same "
            "graphs"
        )
