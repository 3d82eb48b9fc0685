"""Loading a model of either kind from its folder."""

from pathlib import Path

from dgn.molecules.model_io import Model
from dgn.training.model import TrainedModel
from dgn.training.model_io import find_model, read_model
from dgn.training.pretrained import find_network, find_pretrained

__all__ = ["load_model", "load_pretrained"]


def load_model(folder: str | Path, device: str = "auto") -> TrainedModel | Model:
    """The model in a folder that ``dgn train`` or ``dgn fit`` wrote, in evaluation mode on a device.

    ``folder`` is that of a seed, such as ``runs/zinc/plus/seed-1``, the ``model`` inside it, or a copy of it anywhere:
    neither the training data nor a network connection are needed, and no code from the folder is executed.
    ``predict(graphs)`` takes PyG ``Data``, one or several, packed graphs, or SMILES if the model was trained on
    molecules; ``network`` is the ``torch.nn.Module``.
    """
    stored = read_model(find_model(folder))
    return Model.of(stored, device) if stored.table else TrainedModel.of(stored, device)


def load_pretrained(name: str, device: str = "auto") -> TrainedModel:
    """A network that comes with the package, such as "zinc/plus", in evaluation mode on a device.

    Its card, ``README.md`` in its folder, states the data that it was trained on and its scores.

    >>> model = load_pretrained("digits/dx-signed", "cpu")
    >>> model.signature.dataset, model.signature.objective, model.signature.inputs.targets
    ('digits', 'classification', 10)
    """
    return TrainedModel.of(read_model(find_pretrained(name)), device)


def load_by_name(name_or_folder: str, device: str = "auto") -> TrainedModel | Model:
    """The model in a folder, or the pretrained network of a name."""
    return load_model(find_network(name_or_folder), device)
