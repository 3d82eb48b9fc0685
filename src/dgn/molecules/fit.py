"""From molecules to a model: units, training, calibration, scores."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import with_encodings
from dgn.data.precompute.local import torch_threads
from dgn.molecules.columns import Target, Task
from dgn.molecules.conformal import conformal_scores
from dgn.molecules.defaults import default_experiment, is_rare
from dgn.molecules.ensemble import Ensemble
from dgn.molecules.members import TrainedModel, make_benchmark, train_ensemble
from dgn.molecules.model_io import Model, Prediction
from dgn.molecules.rows import Molecules, TableData, take
from dgn.molecules.scores import mean_scores, score_classes, score_numbers
from dgn.molecules.split import PARTS, Split, check_learnable
from dgn.molecules.tune import choose_settings
from dgn.training.devices import choose_device
from dgn.training.run import EpochReport
from dgn.training.versions import collect_versions

LEVEL = 0.9  # of the intervals that are scored


@dataclass(frozen=True)
class FitOptions:
    """How to fit. ``epochs`` is a limit (none: by the size of the table), ``seed`` the first of the members' seeds.

    ``search`` is how many settings are tried before, chosen among by the validation molecules; 0: the usual ones.
    """

    members: int = 5
    epochs: int | None = None
    seed: int = 0
    device: str = "auto"
    search: int = 0

    def __post_init__(self) -> None:
        for name, least in (("members", 1), ("epochs", 1), ("seed", 0), ("search", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name}: expected {least} or more, got {value}; raise it")


class Fitted(NamedTuple):
    """A model, and its predictions for the molecules held out (``None`` if there are none)."""

    model: Model
    held_out: Molecules | None
    prediction: Prediction | None


def fit_table(
    data: TableData,
    split: Split,
    options: FitOptions,
    folder: Path,
    on_epoch: Callable[[EpochReport], None] | None = None,
    on_resume: Callable[[str], None] | None = None,
) -> Fitted:
    """Fit what was read from a table.

    ``folder`` holds checkpoints to go on from. They stay when it is done, so that nothing is lost before the model is
    written; :func:`dgn.molecules.folder.write_folder` removes them.
    """
    about = {
        "rows": data.rows,
        "split": split.how,
        "notes": [*data.notes, *split.notes],
        "problems": [{"what": one.what, "done": one.done, "lines": list(one.lines)} for one in data.problems],
    }
    return fit_molecules(
        data.molecules, split.part, data.task, data.targets, data.smiles, options, folder, about, on_epoch, on_resume
    )


def fit_molecules(
    molecules: Molecules,
    part: Tensor,
    task: Task,
    targets: tuple[Target, ...],
    smiles: str,
    options: FitOptions,
    folder: Path,
    about: dict[str, Any] | None = None,
    on_epoch: Callable[[EpochReport], None] | None = None,
    on_resume: Callable[[str], None] | None = None,
) -> Fitted:
    """Train on part 0, stop and calibrate by part 1, score on part 2 (which may be empty)."""
    learned = molecules.values[part == 0]
    check_learnable(learned, task, targets)
    center, scale = _units(learned, task)
    shown = (molecules.values - center) / scale
    # The name of the data holds its contents: a checkpoint of other molecules is not gone on from.
    content = molecules.graphs.with_values(graphs={"y": shown, "split": part}).checksum()[:16]
    seeds = tuple(range(options.seed, options.seed + options.members))
    name, rare = f"table {content}", is_rare(learned, task)
    experiment = default_experiment(len(learned), seeds, name, task, options.epochs, rare)
    molecules = replace(molecules, graphs=add_directions(molecules.graphs, experiment.num_directions))
    benchmark = make_benchmark(molecules.graphs, shown, part, task)
    data = experiment.data
    benchmark = with_encodings(benchmark, data.rwse_steps, data.ring_sizes)
    device, tried = choose_device(options.device), None
    # Batches of molecules are too small for a team of threads.
    with torch_threads(1 if device.type == "cpu" else torch.get_num_threads()):
        if options.search:
            tried = choose_settings(
                experiment, benchmark, options.search, folder / "search", options.device, on_epoch, on_resume
            )
            experiment, folder = tried.experiment, tried.folder
        trained = train_ensemble(experiment, benchmark, folder, options.device, on_epoch, on_resume)
    ensemble = Ensemble(experiment, trained.delta, len(targets), trained.weights, device)
    nothing = torch.zeros(0, len(targets), dtype=torch.float64)
    model = Model(
        task, targets, smiles, experiment, trained.delta, trained.weights, center, scale, nothing, center * 0, ensemble
    )
    parts = [take(molecules, (part == number).nonzero()[:, 0]) for number in range(3)]
    said = [model.predict(one.graphs) for one in parts]
    if task == "regression":
        floor = said[0].spread.median(dim=0).values.clamp(min=1e-6 * scale)
        scores = conformal_scores(parts[1].values, said[1].mean, said[1].spread, floor)
        model = replace(model, scores=scores, floor=floor)
    facts = {**(about or {}), **_facts(model, parts, said, trained), **({"search": tried.trials} if tried else {})}
    held = (parts[2], said[2]) if len(parts[2].smiles) else (None, None)
    return Fitted(replace(model, facts=facts), *held)


def _units(values: Tensor, task: Task) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of the training values of each target; 0 and 1 for classes."""
    if task != "regression":
        return torch.zeros(values.size(1), dtype=torch.float64), torch.ones(values.size(1), dtype=torch.float64)
    center = values.nanmean(dim=0).nan_to_num()
    scale = (values - center).square().nanmean(dim=0).nan_to_num().sqrt()
    return center, torch.where(scale > 0, scale, 1.0)


def _facts(model: Model, parts: list[Molecules], said: list[Prediction], trained: TrainedModel) -> dict[str, Any]:
    metrics = {}
    for number in (1, 2):
        truth, prediction = parts[number].values, said[number]
        if not len(truth):
            continue
        if model.task == "regression":
            half = model.half_width(prediction.spread, LEVEL)
            guess = parts[0].values.nanmedian(dim=0).values
            found = score_numbers(model.targets, truth, prediction.mean, half, guess)
        else:
            found = score_classes(model.targets, truth, prediction.mean)
        metrics[PARTS[number]] = {"targets": found, "mean": mean_scores(found)}
    return {
        "molecules": {name: len(one.smiles) for name, one in zip(PARTS, parts, strict=True)},
        "metrics": metrics,
        "interval": LEVEL,
        "parameters": trained.results[0].parameters,
        "members": [
            {"seed": one.seed, "epochs": one.epochs, "stopped": one.stopped, "device": one.device}
            for one in trained.results
        ],
        "seconds": max(one.seconds for one in trained.results),
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {**collect_versions(), "rdkit": version("rdkit")},
    }
