"""A fitted model: networks, units, calibration, and the folder that holds them. Loading one runs no code."""

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
CALIBRATION = ("center", "scale", "scores", "floor")  # tensors of the model beside those of its networks


class Prediction(NamedTuple):
    """Numbers or probabilities, and the standard deviation over the members: [G, T] each."""

    mean: Tensor
    spread: Tensor


@dataclass(frozen=True, eq=False)
class Model:
    """What ``dgn fit`` leaves.

    Numbers are predicted as ``center + scale * (what a network says)``, probabilities as its logistic function.
    ``scores`` and ``floor`` are those of :mod:`dgn.molecules.conformal`. ``facts`` tell how it was made.

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
        """What the ensemble says of packed molecules: [G, T]."""
        return self.combine(self.ensemble(graphs))

    def combine(self, said: Tensor) -> Prediction:
        """One prediction of what the members say, [M, G, T]."""
        found = said.double()
        found = found * self.scale + self.center if self.task == "regression" else found.sigmoid()
        spread = found.std(dim=0) if len(found) > 1 and found.size(1) else torch.zeros_like(found[0])
        return Prediction(found.mean(dim=0), spread)

    def half_width(self, spread: Tensor, level: float) -> Tensor:
        """Half the conformal interval around predictions of numbers; infinite with too few validation molecules."""
        return half_width(self.scores, level, spread, self.floor)

    def save(self, folder: Path) -> None:
        """Write weights and configuration."""
        tensors = {f"{number}.{name}": value for number, one in enumerate(self.weights) for name, value in one.items()}
        tensors |= {"center": self.center, "scale": self.scale, "scores": self.scores, "floor": self.floor}
        told = {
            "format": FORMAT,
            "features": VERSION,
            "task": self.task,
            "smiles": self.smiles,
            "targets": [{"name": each.name, "classes": each.classes} for each in self.targets],
            "members": len(self.weights),
            "delta": self.delta,
            "experiment": self.experiment.to_dict(),
            "facts": _plain(self.facts),
        }
        text = json.dumps(told, indent=1) + "\n"  # before anything is written: it may fail
        write_tensors(folder / WEIGHTS, tensors, {"format": FORMAT})
        write_text(folder / CONFIGURATION, text)


def load_model(folder: str | Path, device: str = "auto") -> Model:
    """Read the folder of a model: plain data and numbers, checked; nothing in it is run."""
    folder = Path(folder)
    path = folder / CONFIGURATION
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: expected the folder of a model with {CONFIGURATION}, found none; 'dgn fit' writes one"
        )
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        if told["format"] != FORMAT or told["features"] != VERSION:
            raise ValueError(f"format {told['format']!r} with features {told['features']!r}")
        check_option("task", told["task"], TASKS)
        targets = tuple(_target(each) for each in told["targets"])
        experiment, delta, members = read_experiment(told["experiment"]), float(told["delta"]), int(told["members"])
        if members < 1:
            raise ValueError(f"{members} members")
        column, facts = str(told["smiles"]), dict(told["facts"])
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as problem:
        raise ValueError(
            f"{path}: expected {FORMAT!r} with features {VERSION!r}, got {problem}; fit again"
        ) from problem
    tensors, _ = read_tensors(folder / WEIGHTS, FORMAT)
    calibration = {name: tensors[name] for name in CALIBRATION if name in tensors}
    shapes = [list(value.shape[-1:]) for value in calibration.values()]
    # Counted before any network is built: a wrong number would leave some out, or build them without end.
    networks = {name.partition(".")[0] for name in tensors.keys() - calibration.keys()}
    if shapes != [[len(targets)]] * len(CALIBRATION) or len(networks) != members:
        raise ValueError(
            f"{folder / WEIGHTS}: expected {members} networks for {len(targets)} targets as in {CONFIGURATION}, got "
            f"{len(networks)} and a calibration of shapes {shapes}; fit again"
        )
    weights = [_under(tensors, f"{number}.") for number in range(members)]
    where = choose_device(device)
    return Model(
        cast("Task", told["task"]), targets, column, experiment, delta, weights,
        tensors["center"], tensors["scale"], tensors["scores"], tensors["floor"],
        Ensemble(experiment, delta, len(targets), weights, where), facts,
    )  # fmt: skip


def _target(told: Mapping[str, Any]) -> Target:
    classes = told["classes"]
    if classes is None:
        return Target(str(told["name"]))
    low, high = classes
    return Target(str(told["name"]), (str(low), str(high)))


def _under(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _plain(value: Any) -> Any:
    """JSON knows neither NaN nor infinity."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list | tuple) else value
