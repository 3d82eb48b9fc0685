"""Learning from networks that were trained before: what they say of a graph is part of its label."""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import one_hot, softmax

from dgn.data.benchmark import Benchmark, with_fraction
from dgn.data.packed import PackedGraphs
from dgn.training.checkpoint import MODEL
from dgn.training.evaluate import SOFT_TARGETS
from dgn.training.experiment import Experiment
from dgn.training.inference import TrainedModel, load_trained, predict_graphs
from dgn.training.objectives import make_objective
from dgn.training.shared_data import SharedData

ROUNDING = 0.01  # by which the score of a teacher may differ from the one of its run, on another device


def teach(
    material: SharedData, experiment: Experiment, benchmark: Benchmark, out: Path | None, device: torch.device
) -> SharedData:
    r"""The material with lessons in the place of labels: a distribution over the classes for each training graph.

    .. math:: (1 - t) \left[ (1 - s) \, [k = c] + \frac{s}{C} \right] + \frac{t}{M} \sum_m p_m(k)

    for class k of C, with the label c, its smoothing s, the share t of ``training.distill_weight`` and M teachers;
    where a label is missing, teachers are all there is. They see each graph as it is, while the
    student sees it as augmentation makes it. Scores are of the labels, as always.
    """
    settings = experiment.training
    if settings.distill_from is None:
        return material
    if benchmark.objective != "classification":
        raise ValueError(
            f"training.distill_from: expected graphs with classes, got {benchmark.objective}; leave it out for this "
            "data"
        )
    every, numbers = with_fraction(benchmark, experiment.data.train_fraction).graphs, material.training
    graphs = every.select(numbers)
    folders = find_teacher_runs(experiment, out)
    said = torch.zeros(len(numbers), benchmark.num_targets)
    for folder in folders:
        said += softmax(_ask(folder, benchmark, graphs, device), dim=1) / len(folders)
    number, smoothing = graphs.graphs["y"].flatten().long(), settings.label_smoothing
    label = (1 - smoothing) * one_hot(number.clamp(min=0), benchmark.num_targets) + smoothing / benchmark.num_targets
    share = torch.where(number < 0, 1.0, settings.distill_weight)[:, None]
    lessons = torch.zeros(len(every), benchmark.num_targets)  # nobody learns from the other parts
    lessons[numbers] = (1 - share) * label + share * said
    material.store.graphs[SOFT_TARGETS] = lessons.to(material.store.device)
    return material._replace(objective=material.objective.smoothed(0.0))


def find_teacher_runs(experiment: Experiment, out: Path | None = None) -> list[Path]:
    """The folders of the trained seeds of the run that ``training.distill_from`` names.

    Runs lie beside each other: where the experiment ``zinc/mine`` is trained in ``there/zinc/mine``, the run
    ``zinc/other`` is looked for in ``there/zinc/other``, else in ``runs/zinc/other``; then as a folder from here.
    """
    name, own = str(experiment.training.distill_from), Path(experiment.name).parts
    root = Path("runs")
    if out is not None and out.parts[-len(own) :] == own:
        root = out.parents[len(own) - 1]
    for place in (root / name, Path(name)):
        if found := sorted(path.parent for path in place.glob(f"seed-*/{MODEL}")):
            return found
    raise FileNotFoundError(
        f"training.distill_from: expected a run with trained seeds, got none in {root / name} nor in {Path(name)}; "
        f"train it first, as with dgn train {name}, or name the folder of another"
    )


def _ask(folder: Path, benchmark: Benchmark, graphs: PackedGraphs, device: torch.device) -> Tensor:
    """What a teacher says of the training graphs."""
    try:
        trained = load_trained(folder, benchmark)
    except ValueError as problem:
        raise ValueError(
            f"training.distill_from: expected networks that were trained with these graphs, got {folder}: {problem}"
        ) from problem
    said = predict_graphs(trained, graphs, str(device))
    _check_score(trained, folder, said, graphs)
    return said


def _check_score(trained: TrainedModel, folder: Path, said: Tensor, graphs: PackedGraphs) -> None:
    """A teacher scores here as in its run: other labels, or another division, would be another task."""
    known = trained.benchmark
    if int((known.graphs.graphs["split"] == 0).sum()) != len(graphs):  # it was trained with more graphs, or with fewer
        return
    objective = make_objective(known.objective, trained.experiment.training.metric or known.metric)
    found, told = objective.metric(said, graphs.graphs["y"]), trained.metrics["train"][objective.metric_name]
    if abs(found - told) > ROUNDING:
        raise ValueError(
            f"training.distill_from: expected networks that were trained with these labels, got {folder}, whose "
            f"training {objective.metric_name} is {found:.4f} here and was {told:.4f}; name a run of the same graphs"
        )
