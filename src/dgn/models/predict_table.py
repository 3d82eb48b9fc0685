"""A network that was trained on molecules, applied to a table of SMILES as a model of ``dgn fit`` is."""

import torch

from dgn.molecules.columns import Target
from dgn.molecules.model_io import Model
from dgn.training.model import TrainedModel

SMILES = "smiles"  # the column, unless the table has another


def as_table_model(model: TrainedModel) -> Model:
    """The model with names of targets, and without a calibration: its intervals are infinite.

    A single target has the name of the dataset, others are numbered.
    """
    name, count = model.signature.dataset, model.signature.inputs.targets
    labels = None if model.signature.objective == "regression" else ("0", "1")
    names = [name] if count == 1 else [f"{name}_{index}" for index in range(count)]
    zero = torch.zeros(count, dtype=torch.float64)
    return Model(
        task="regression" if labels is None else "multi-label",
        targets=tuple(Target(name, labels) for name in names),
        smiles=SMILES,
        ensemble=model,
        center=zero,
        scale=torch.ones_like(zero),
        scores=torch.zeros(0, count, dtype=torch.float64),
        floor=zero,
        facts=model.facts,
    )
