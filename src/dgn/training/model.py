"""A trained model: networks in evaluation mode that predict on any graphs, without the graphs of their training."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmark import Benchmark, graphs_in_split, with_fraction
from dgn.data.datasets.smiles import pack_smiles
from dgn.data.packed import PackedGraphs
from dgn.graph.checks import check_option
from dgn.nn import DGN, Ensemble
from dgn.nn.network import Returns
from dgn.training.build import build_for_inputs
from dgn.training.devices import choose_device, matrix_precision
from dgn.training.experiment import Experiment
from dgn.training.inference import embedding_width, predict_ensemble
from dgn.training.model_io import StoredModel, find_model, read_model
from dgn.training.preprocessing import check_features, preprocess
from dgn.training.shared_data import SPLITS
from dgn.training.signature import Signature

GRAPHS = "PyG data or packed graphs"


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """Networks of one architecture in evaluation mode, with all that they need in order to predict.

    There is one network, or one for each member of an ensemble of seeds. ``facts`` are metadata: scores by split, sizes
    of the splits, a note on the data, versions.

    Laws: a prediction depends neither on the other graphs nor on their order, up to rounding; a model from its folder
    predicts the same as the model that was written there, to the last bit on the same CPU.
    """

    experiment: Experiment
    signature: Signature
    networks: Sequence[DGN | Ensemble]
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, stored: StoredModel, device: str = "auto") -> "TrainedModel":
        """The model of weights and settings, on a device."""
        networks = [_build(stored.experiment, stored.signature, weights) for weights in stored.weights]
        return cls(stored.experiment, stored.signature, networks, stored.facts).to(device)

    @property
    def network(self) -> DGN | Ensemble:
        """The first network, a ``torch.nn.Module``."""
        return self.networks[0]

    @property
    def metrics(self) -> Mapping[str, Mapping[str, float]]:
        """Scores by split and name."""
        metrics: Mapping[str, Mapping[str, float]] = self.facts["metrics"]
        return metrics

    @property
    def device(self) -> torch.device:
        """The device of the networks."""
        return next(self.network.parameters()).device

    def to(self, device: str) -> "TrainedModel":
        """The model, its networks moved to a device: auto, cpu or cuda."""
        for network in self.networks:
            network.to(choose_device(device))
        return self

    def pack(self, graphs: Any) -> PackedGraphs:
        """PyG ``Data``, one or several, packed graphs, or SMILES as packed graphs, without further inputs."""
        return _pack(graphs, self.signature)

    def prepare(self, graphs: Any) -> PackedGraphs:
        """New graphs with all inputs of the networks: PyG ``Data``, one or several, packed graphs, or SMILES.

        Graphs need the features of the training graphs, and a field where those came with one. Eigenvectors and
        structural encodings are added. SMILES are read where training graphs were molecules with OGB's features.
        """
        prepared = preprocess(self.pack(graphs), self.signature)
        check_features(prepared, self.signature, self.experiment.network)
        return prepared

    def outputs(self, graphs: Any) -> Tensor:
        """The outputs of each network, one row for each graph or node: [M, R, T] on the CPU."""
        return self._compute(graphs, "prediction")

    def embed(self, graphs: Any, nodes: bool = False) -> Tensor:
        """What the head reads, one row for each graph or node, or the features of ``nodes`` before the readout.

        Embeddings of several networks are side by side: [R, C] on the CPU.
        """
        members = self._compute(graphs, "node-embedding" if nodes else "embedding")
        return torch.cat([*members], dim=1)

    def _compute(self, graphs: Any, returns: Returns) -> Tensor:
        packed, settings = self.pack(graphs), self.experiment.network
        if not len(packed):
            width = self.signature.inputs.targets if returns == "prediction" else embedding_width(settings, returns)
            return torch.zeros(len(self.networks), 0, width)
        prepared, mask = self.prepare(packed), self.signature.reflected_mask()
        targets = self.signature.inputs.targets
        with matrix_precision(self.experiment.training.precision):
            return predict_ensemble(self.networks, settings, targets, prepared, self.device, mask, returns)

    def predict(self, graphs: Any) -> Tensor:
        """Predicted numbers, probabilities of the classes, or of each label: [R, T] on the CPU.

        ``graphs`` as of :meth:`prepare`. Several networks predict their mean.
        """
        return self.as_prediction(self.outputs(graphs)).mean(dim=0)

    def as_prediction(self, outputs: Tensor) -> Tensor:
        """Outputs as numbers, or probabilities of the classes or of each label."""
        if self.signature.objective == "multi-label":
            return outputs.sigmoid()
        return outputs.softmax(dim=-1) if self.signature.objective.endswith("classification") else outputs


class SplitPrediction(NamedTuple):
    """Outputs and targets of a split, one row for each graph or node.

    Shapes:
        ``prediction`` [R, T]; ``target`` [R, T], or [R] where it is the index of one of T classes.
    """

    prediction: Tensor
    target: Tensor


def load_trained(folder: str | Path, device: str = "auto") -> TrainedModel:
    """The model in a folder that ``dgn train`` wrote, such as ``runs/zinc/plus/seed-1`` or the ``model`` inside it.

    Neither the training graphs nor a network connection are needed; no code from the folder is executed.
    """
    return TrainedModel.of(read_model(find_model(folder)), device)


def join(models: Sequence[TrainedModel]) -> TrainedModel:
    """One model of the networks of several, trained on the same graphs with different seeds."""
    first = models[0]
    networks = [network for model in models for network in model.networks]
    return TrainedModel(first.experiment, first.signature, networks, first.facts)


def predict_split(model: TrainedModel, benchmark: Benchmark, split: str) -> SplitPrediction:
    """Outputs and targets of a ``split`` of its graphs, train, val or test, in the order of the dataset.

    Law: their scores are those of the run, up to rounding.
    """
    check_option("split", split, SPLITS)
    graphs = with_fraction(benchmark, model.experiment.data.train_fraction).graphs
    selected = graphs.select(graphs_in_split(graphs, SPLITS.index(split)))
    prediction = model.outputs(selected).mean(dim=0)
    target = (selected.nodes if "y" in selected.nodes else selected.graphs)["y"]
    if "split" in selected.nodes:
        mask = selected.nodes["split"] == SPLITS.index(split)
        prediction, target = prediction[mask], target[mask]
    has_classes = model.signature.objective.endswith("classification")
    return SplitPrediction(prediction, target.flatten() if has_classes else target.view_as(prediction))


def _build(experiment: Experiment, signature: Signature, weights: Mapping[str, Tensor]) -> DGN | Ensemble:
    network = build_for_inputs(experiment.network, signature.inputs, signature.delta)
    try:
        network.load_state_dict(dict(weights))
    except RuntimeError as problem:
        raise ValueError(f"weights: expected those of the network in model.json, got others; {problem}") from problem
    return network.eval()


def _pack(graphs: Any, signature: Signature) -> PackedGraphs:
    """Packed graphs of anything that is a graph or a molecule, or several of them."""
    if isinstance(graphs, PackedGraphs):
        return graphs
    if hasattr(graphs, "to_data_list"):
        graphs = graphs.to_data_list()
    elif hasattr(graphs, "edge_index") or isinstance(graphs, str):
        graphs = [graphs]
    if not isinstance(graphs, Iterable):
        raise TypeError(f"graphs: expected {GRAPHS}, got {type(graphs).__name__}; PackedGraphs.from_data packs them")
    items = list(graphs)
    if not any(isinstance(item, str) for item in items):
        return PackedGraphs.from_data(items)
    if not signature.featurization:
        raise ValueError(
            f"graphs: expected {GRAPHS}, as {signature.dataset} has no SMILES, got {items[0]!r}; pass graphs with the "
            "features of the training graphs"
        )
    return pack_smiles(items, featurization=signature.featurization)
