"""``python -m reproduce package``: a finished run becomes a network that comes with the package."""

from pathlib import Path
from typing import Annotated

import typer

from dgn.cli.display import echo, make_console
from dgn.data.benchmark import load_benchmark
from dgn.training.model import TrainedModel, predict_split
from dgn.training.model_card import write_card
from dgn.training.model_io import StoredModel, find_model, read_model, write_model
from dgn.training.objectives import make_objective
from dgn.training.pretrained import pretrained_root
from dgn.training.run_folder import finished_runs, seed_folder
from dgn.training.scores import is_better, main_metric

PARAMETERS = 500_000  # at most: two megabytes
TOLERANCE = 1e-3  # by which a score may differ on another device


def command(
    run: Annotated[Path, typer.Argument(help="Run folder with finished seeds; the best one by validation is taken.")],
    name: Annotated[str, typer.Argument(help="Name of the network, such as zinc/plus.")],
    data: Annotated[str | None, typer.Option(help="File or folder of its dataset.", show_default="downloaded")] = None,
    root: Annotated[Path | None, typer.Option(help="Folder to write to.", show_default="the package")] = None,
    device: Annotated[str, typer.Option(help="auto (a GPU if there is one), cpu or cuda.")] = "auto",
) -> None:
    """Package the best seed of a run as a pretrained network with its card.

    Its test score is computed again from the data first, and must be that of the run.

    For example: python -m reproduce package runs/zinc/plus zinc/plus --data data
    """
    folder = find_model(seed_folder(run, best_seed(run)))
    stored, out = read_model(folder), (root or pretrained_root()) / name
    if stored.facts["parameters"] > PARAMETERS:
        raise ValueError(
            f"{folder}: expected at most {PARAMETERS:,} parameters, got {stored.facts['parameters']:,}; train a "
            "smaller network"
        )
    score = rescore(stored, data, device)
    write_model(out, stored, write_card(stored, name))
    echo(make_console(), f"{folder} is in {out}; test {stored.signature.metric} {score:.4f}")


def best_seed(run: Path) -> int:
    """The finished seed of a run with the best validation score."""
    runs = finished_runs(run)
    if not runs:
        raise FileNotFoundError(f"{run}: expected a run folder with finished seeds, got none; check the path")
    metric = main_metric(next(iter(runs.values())).experiment)
    best, *others = sorted(runs)
    for seed in others:
        if is_better(metric, runs[seed].metrics["val"][metric], runs[best].metrics["val"][metric]):
            best = seed
    return best


def rescore(stored: StoredModel, data: str | None, device: str = "auto") -> float:
    """The test score of a model on its data, which must be that of its card."""
    model, signature = TrainedModel.of(stored, device), stored.signature
    prediction, target = predict_split(model, load_benchmark(signature.dataset, data), "test")
    score = make_objective(signature.objective, signature.metric).metric(prediction, target)
    expected = model.metrics["test"][signature.metric]
    if abs(score - expected) > TOLERANCE:
        raise ValueError(
            f"{stored.experiment.name}: expected a test {signature.metric} of {expected:.5f}, as in its card, got "
            f"{score:.5f} on these data; give those that it was trained on"
        )
    return float(score)
