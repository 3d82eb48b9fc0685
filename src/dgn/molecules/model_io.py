"""A fitted model: ensemble, standardization and calibration, and its folder. Loading executes no code."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from dgn.data.io.files import read_tensors, write_tensors
from dgn.data.packed import PackedGraphs
from dgn.graph.checks import check_option
from dgn.molecules.columns import TASKS, Target, Task
from dgn.molecules.conformal import half_width
from dgn.molecules.ensemble import Ensemble
from dgn.molecules.featurize import VERSION
from dgn.training.devices import choose_device
from dgn.training.experiment import Experiment, read_experiment
from dgn.training.run_folder import write_text

FORMAT = "dgn model 1"
CONFIGURATION, WEIGHTS = "model.json", "weights.safetensors"
CALIBRATION = ("center", "scale", "scores", "floor")  # tensors beside those of the networks


class Prediction(NamedTuple):
    """Predicted values or probabilities, and their standard deviation over the members: [G, T] each."""

    mean: Tensor
    spread: Tensor


@dataclass(frozen=True, eq=False)
class Model:
    """A model as written by ``dgn fit``.

    Regression predicts ``center + scale * output``, classification ``sigmoid(output)``. ``scores`` and ``floor`` are
    those of :mod:`dgn.molecules.conformal`. ``facts`` are metadata: data, scores, versions.

    Shapes:
        ``center``, ``scale`` and ``floor`` [T], ``scores`` [V, T].
    """

    task: Task
    targets: tuple[Target, ...]
    smiles: str
    experiment: Experiment
    delta: float
    weights: Sequence[Mapping[str, Tensor]]
    center: Tensor
    scale: Tensor
    scores: Tensor
    floor: Tensor
    ensemble: Ensemble
    facts: Mapping[str, Any] = field(default_factory=dict)

    def predict(self, graphs: PackedGraphs) -> Prediction:
        """Predictions for packed molecules: [G, T]."""
        return self.combine(self.ensemble(graphs))

    def combine(self, outputs: Tensor) -> Prediction:
        """The ensemble prediction from the outputs of its members, [M, G, T]."""
        outputs = outputs.double()
        values = outputs * self.scale + self.center if self.task == "regression" else outputs.sigmoid()
        spread = values.std(dim=0) if len(values) > 1 and values.size(1) else torch.zeros_like(values[0])
        return Prediction(values.mean(dim=0), spread)

    def half_width(self, spread: Tensor, level: float) -> Tensor:
        """Half-widths of the conformal intervals; infinite with too few validation molecules."""
        return half_width(self.scores, level, spread, self.floor)

    def save(self, folder: Path) -> None:
        """Write weights and configuration."""
        tensors = {
            f"{member}.{name}": value for member, state in enumerate(self.weights) for name, value in state.items()
        }
        tensors |= {"center": self.center, "scale": self.scale, "scores": self.scores, "floor": self.floor}
        config = {
            "format": FORMAT,
            "features": VERSION,
            "task": self.task,
            "smiles": self.smiles,
            "targets": [{"name": target.name, "classes": target.classes} for target in self.targets],
            "members": len(self.weights),
            "delta": self.delta,
            "experiment": self.experiment.to_dict(),
            "facts": _plain(self.facts),
        }
        text = json.dumps(config, indent=1) + "\n"  # may fail: before anything is written
        write_tensors(folder / WEIGHTS, tensors, {"format": FORMAT})
        write_text(folder / CONFIGURATION, text)


def load_model(folder: str | Path, device: str = "auto") -> Model:
    """The model in a folder: JSON and tensors, validated; no code is executed."""
    folder = Path(folder)
    path = folder / CONFIGURATION
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: expected the folder of a model with {CONFIGURATION}, found none; 'dgn fit' writes one"
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        if config["format"] != FORMAT or config["features"] != VERSION:
            raise ValueError(f"format {config['format']!r} with features {config['features']!r}")
        check_option("task", config["task"], TASKS)
        targets = tuple(_read_target(target) for target in config["targets"])
        experiment, delta, members = (
            read_experiment(config["experiment"]),
            float(config["delta"]),
            int(config["members"]),
        )
        if members < 1:
            raise ValueError(f"{members} members")
        column, facts = str(config["smiles"]), dict(config["facts"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as problem:
        raise ValueError(
            f"{path}: expected {FORMAT!r} with features {VERSION!r}, got {problem}; fit again"
        ) from problem
    tensors, _ = read_tensors(folder / WEIGHTS, FORMAT)
    calibration = {name: tensors[name] for name in CALIBRATION if name in tensors}
    shapes = [list(value.shape[-1:]) for value in calibration.values()]
    # Counted before any network is built: a wrong count would drop some, or build them without end.
    networks = {name.partition(".")[0] for name in tensors.keys() - calibration.keys()}
    if shapes != [[len(targets)]] * len(CALIBRATION) or len(networks) != members:
        raise ValueError(
            f"{folder / WEIGHTS}: expected {members} networks for {len(targets)} targets as in {CONFIGURATION}, got "
            f"{len(networks)} and a calibration of shapes {shapes}; fit again"
        )
    weights = [_with_prefix(tensors, f"{member}.") for member in range(members)]
    return Model(
        task=cast("Task", config["task"]),
        targets=targets,
        smiles=column,
        experiment=experiment,
        delta=delta,
        weights=weights,
        center=tensors["center"],
        scale=tensors["scale"],
        scores=tensors["scores"],
        floor=tensors["floor"],
        ensemble=Ensemble(experiment, delta, len(targets), weights, choose_device(device)),
        facts=facts,
    )


def _read_target(config: Mapping[str, Any]) -> Target:
    classes = config["classes"]
    if classes is None:
        return Target(str(config["name"]))
    low, high = classes
    return Target(str(config["name"]), (str(low), str(high)))


def _with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _plain(value: Any) -> Any:
    """The value for JSON, None for NaN and infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
