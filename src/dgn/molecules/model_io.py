"""A fitted model: ensemble, standardization and calibration, and its folder. Loading executes no code."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from dgn.data.datasets.descriptors import parse_descriptors
from dgn.data.datasets.smiles import AND
from dgn.data.packed import PackedGraphs
from dgn.graph.checks import check_option
from dgn.molecules.columns import TASKS, Target, Task, output_names
from dgn.molecules.conformal import difficulty, half_width
from dgn.molecules.descriptor_models import DescriptorModels, member_outputs, member_weights
from dgn.molecules.domain import Comparison, Domain
from dgn.molecules.logarithm import from_log, to_log
from dgn.nn import DGN, Ensemble
from dgn.training.experiment import Experiment
from dgn.training.model import TrainedModel
from dgn.training.model_io import PROBLEMS, StoredModel, find_model, read_model, write_model
from dgn.training.pretrained import CONFIGURATION

CALIBRATION = ("center", "scale", "scores", "floor")  # tensors beside those of the networks


class Prediction(NamedTuple):
    """Predicted values or probabilities, and their standard deviation over the members (NaN for a single one).

    ``difficulty`` is the scale of the expected error, of the logarithm where that is learned
    (:func:`dgn.molecules.conformal.difficulty`).

    Shapes:
        [G, T] each; with several classes [G, C].
    """

    mean: Tensor
    spread: Tensor
    difficulty: Tensor


@dataclass(frozen=True, eq=False)
class Model:
    """A model as written by ``dgn fit``.

    Regression predicts ``center + scale * output``, or 10 to that power where a logarithm is learned, classification
    ``sigmoid(output)``, or ``softmax(output)`` over several classes. ``scores`` and ``floor`` are those of
    :mod:`dgn.molecules.conformal`. ``facts`` are metadata: data, scores, versions. ``features`` are columns of numbers
    that members read beside the graphs, ``partner`` is that of second SMILES, if rows are pairs of molecules.
    ``descriptor_models`` are further members.

    Shapes:
        ``center``, ``scale`` and ``floor`` [T], ``scores`` [V, T].
    """

    task: Task
    targets: tuple[Target, ...]
    smiles: str
    ensemble: TrainedModel
    center: Tensor
    scale: Tensor
    scores: Tensor
    floor: Tensor
    facts: Mapping[str, Any] = field(default_factory=dict)
    domain: Domain | None = None
    features: tuple[str, ...] = ()
    partner: str | None = None
    descriptor_models: DescriptorModels | None = None

    @classmethod
    def of(cls, stored: StoredModel, device: str = "auto") -> "Model":
        """The model of stored networks, with the columns and the calibration of their table."""
        try:
            check_option("task", stored.table["task"], TASKS)
            task = cast("Task", stored.table["task"])
            targets = tuple(_read_target(target, task) for target in stored.table["targets"])
            column = str(stored.table["smiles"])
            calibration = {name: stored.tensors[name] for name in CALIBRATION}
            domain = Domain.read(stored.tensors)
            features = tuple(str(name) for name in stored.table["features"])
            partner = stored.table.get("partner")
        except PROBLEMS as problem:
            raise ValueError(
                f"{CONFIGURATION}: expected a model of a table of molecules, got {problem!r}; 'dgn fit' writes one"
            ) from problem
        models = DescriptorModels.read(stored.tensors)
        shapes, outputs = [list(value.shape[-1:]) for value in calibration.values()], len(output_names(task, targets))
        if shapes != [[outputs]] * len(CALIBRATION) or stored.signature.inputs.targets != outputs:
            raise ValueError(
                f"{CONFIGURATION}: expected networks and a calibration for {outputs} outputs, got networks for "
                f"{stored.signature.inputs.targets} and a calibration of shapes {shapes}; fit again"
            )
        if models is not None and models.targets != {outputs}:
            raise ValueError(
                f"{CONFIGURATION}: expected {outputs} outputs of descriptor models, got {models.targets}; fit again"
            )
        ensemble = TrainedModel.of(stored, device)
        return cls(
            task,
            targets,
            column,
            ensemble,
            facts=stored.facts,
            domain=domain,
            features=features,
            partner=partner,
            descriptor_models=models,
            **calibration,
        )

    @property
    def experiment(self) -> Experiment:
        """The settings of each member."""
        return self.ensemble.experiment

    @property
    def network(self) -> DGN | Ensemble:
        """The first member, a ``torch.nn.Module``."""
        return self.ensemble.network

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the only target of a multiclass model."""
        assert self.task == "multiclass"
        return self.targets[0].classes or ()

    @property
    def descriptors(self) -> tuple[str, ...]:
        """The names of the descriptors of molecules that networks read beside the graphs."""
        return parse_descriptors((*self.ensemble.signature.featurization.split(AND), "")[1])

    def predict(self, graphs: Any) -> Prediction:
        """Predictions for molecules, SMILES or their graphs: [G, T]."""
        packed = self.ensemble.pack(graphs)
        return self.combine(member_outputs(self.ensemble, packed, self.descriptor_models), self.compare(packed))

    def compare(self, graphs: PackedGraphs) -> Comparison | None:
        """The relation of molecules to those of training, if that is stored."""
        return None if self.domain is None else self.domain.compare(graphs)

    def learned(self, outputs: Tensor) -> Tensor:
        """The outputs of members in units of what they learn: numbers, their logarithms, or probabilities."""
        outputs = outputs.double()
        if self.task == "multiclass":
            return outputs.softmax(dim=-1)
        return outputs * self.scale + self.center if self.task == "regression" else outputs.sigmoid()

    def combine(self, outputs: Tensor, comparison: Comparison | None = None) -> Prediction:
        """The ensemble prediction from the outputs of its members, [M, G, T], and their relation to training."""
        learned = self.learned(outputs)
        novelty = learned.new_zeros(learned.size(1)) if comparison is None else torch.from_numpy(comparison.novelty)
        weights = member_weights(len(learned), self.descriptor_models, len(self.scale))
        mean = from_log(self.targets, (weights * learned).sum(dim=0))
        spread = weighted_spread(from_log(self.targets, learned), weights)
        return Prediction(mean, spread, difficulty(weighted_spread(learned, weights), self.floor, novelty))

    def interval(self, prediction: Prediction, level: float) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the conformal intervals, [G, T]; infinite with too few validation molecules."""
        center, half = to_log(self.targets, prediction.mean), half_width(self.scores, level, prediction.difficulty)
        return from_log(self.targets, center - half), from_log(self.targets, center + half)

    def save(self, folder: Path, card: str | None = None) -> None:
        """Write card, weights and configuration."""
        targets = [asdict(target) for target in self.targets]
        stored = StoredModel(
            self.experiment,
            self.ensemble.signature,
            [network.state_dict() for network in self.ensemble.networks],
            self.facts,
            {
                "task": self.task,
                "smiles": self.smiles,
                **({} if self.partner is None else {"partner": self.partner}),
                "targets": targets,
                "features": list(self.features),
            },
            {
                **{name: getattr(self, name) for name in CALIBRATION},
                **({} if self.domain is None else self.domain.tensors()),
                **({} if self.descriptor_models is None else self.descriptor_models.tensors()),
            },
        )
        write_model(folder, stored, card)


def weighted_spread(values: Tensor, weights: Tensor) -> Tensor:
    r"""The standard deviation over the members, [M, G, T] to [G, T]; NaN for a single one.

    .. math:: s^2 = \sum_m a_m (x_m - \bar x)^2 / (1 - \sum_m a_m^2)

    for weights :math:`a_m` of sum 1; with equal ones, that is the usual sample deviation.
    """
    mean, freedom = (weights * values).sum(dim=0), 1 - weights.square().sum(dim=0)
    variance = (weights * (values - mean).square()).sum(dim=0) / freedom.where(freedom > 1e-9, torch.nan)
    return variance.sqrt()


def load_model(folder: str | Path, device: str = "auto") -> Model:
    """The model in a folder that ``dgn fit`` wrote: JSON and tensors, validated; no code is executed."""
    return Model.of(read_model(find_model(folder)), device)


def _read_target(config: Mapping[str, Any], task: Task) -> Target:
    classes = config["classes"]
    if classes is None:
        return Target(str(config["name"]), log=bool(config["log"]))
    if (len(classes) == 2) == (task == "multiclass"):
        raise ValueError(f"classes: expected {'three or more' if task == 'multiclass' else 'two'}, got {classes}")
    return Target(str(config["name"]), tuple(str(name) for name in classes))
