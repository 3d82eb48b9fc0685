"""Members of the ensemble that read descriptors of molecules: a random forest and a kernel ridge regression."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmark import GRAPH_ATTR
from dgn.data.datasets.descriptors import descriptor_widths, parse_descriptors
from dgn.data.datasets.smiles import BESIDE
from dgn.data.packed import PackedGraphs
from dgn.molecules.columns import Task
from dgn.molecules.ensemble_training import is_paired
from dgn.molecules.forest import Forest, Inputs, as_outputs, fit_forest, read_parts, teaching_weight
from dgn.molecules.kernel_ridge import KernelRidge, fit_kernel_ridge
from dgn.training.model import TrainedModel
from dgn.training.model_io import WEIGHTS, read_model
from dgn.training.pretrained import find_pretrained

DESCRIPTORS = "rdkit+morgan"  # that both read (:func:`dgn.data.datasets.descriptors.describe`)
NETWORK = "molpcba/small"  # the pretrained network whose embedding they read too
SHARE = 1 / 3  # of each of them in a prediction, where validation does not choose it; the networks share the rest
IN_DISTANCE = (1.0, 0.5)  # what descriptors and fingerprints count in the distance of two molecules; all else counts 1
PREFIX = "descriptor_models_"  # of the tensors in the folder of a model
OWN = ("widths", "weight", "network")  # tensors beside those of the forest and of the regression
TASKS: dict[str, Task] = {"regression": "regression", "multi-label": "multi-label", "classification": "multiclass"}


@dataclass(frozen=True, eq=False)
class DescriptorModels:
    """A forest and a kernel ridge regression on descriptors, an embedding, and columns of ``--features``.

    Shapes:
        ``widths`` [3] int32, of these inputs; ``weight`` [2, T] float64, of both in the prediction; ``network`` [32]
        uint8, the SHA-256 of the weights of ``NETWORK``.
    """

    forest: Forest
    ridge: KernelRidge
    widths: Tensor
    weight: Tensor
    network: Tensor

    @classmethod
    def read(cls, tensors: Mapping[str, Tensor]) -> "DescriptorModels | None":
        """The models among the tensors of a folder, if it has them; those of another ``NETWORK`` are refused."""
        forest, ridge, own = Forest.read(tensors), KernelRidge.read(tensors), read_parts(tensors, PREFIX, OWN)
        if forest is None or ridge is None or not own:
            if forest is None and ridge is None and not own:
                return None
            raise ValueError(
                "descriptor_models: expected a forest and a kernel ridge regression, got one; copy the folder again"
            )
        models = cls(forest, ridge, **own)
        if models.widths.shape != (3,) or models.weight.shape != (2, len(ridge.bias)):
            shapes = [tuple(tensor.shape) for tensor in (models.widths, models.weight)]
            raise ValueError(
                f"descriptor_models: expected widths [3] and weights [2, {len(ridge.bias)}], got {shapes}; copy the "
                "folder again"
            )
        sizes = [int(models.widths.sum()), int(forest.width), len(ridge.center)]
        if len(set(sizes)) > 1:
            raise ValueError(f"descriptor_models: expected equal numbers of inputs, got {sizes}; copy the folder again")
        if bool(models.widths[1]) and not torch.equal(models.network, _checksum()):
            raise ValueError(
                f"descriptor_models: expected the network {NETWORK} of training, got another version; use the dgn of "
                "training (model.json names its version), or fit again"
            )
        return models

    def tensors(self) -> dict[str, Tensor]:
        """What :meth:`read` reads."""
        own = {f"{PREFIX}{name}": getattr(self, name) for name in OWN}
        return {**self.forest.tensors(), **self.ridge.tensors(), **own}

    @property
    def shares(self) -> Tensor:
        """What networks, forest and regression count in the prediction of each target, [3, T]."""
        return torch.cat([1 - self.weight.sum(dim=0, keepdim=True), self.weight])

    @property
    def is_fitted(self) -> Tensor:
        """Whether there were enough values of a target to learn from, [T] bool."""
        return (self.forest.roots > 0).any(dim=1)

    def with_shares(self, shares: Tensor) -> "DescriptorModels":
        """The models with other shares [3, T]; where they have learned nothing, the networks count alone."""
        return replace(self, weight=torch.where(self.is_fitted, shares[1:], 0.0))

    @property
    def targets(self) -> set[int]:
        """The number of targets; several numbers, if the parts disagree."""
        return {len(self.forest.roots), len(self.ridge.bias), self.weight.size(1)}

    def inputs(self, graphs: PackedGraphs, device: str = "cpu") -> Inputs:
        """What both read of packed molecules, [G, F]."""
        descriptors = graphs.graphs.get(BESIDE)
        if descriptors is None:
            raise ValueError(
                "graphs: expected SMILES, as this model reads descriptors of molecules, got graphs without them; pass "
                "SMILES, or fit with --no-descriptor-models"
            )
        columns, embedding = int(self.widths[2]), embed(graphs, device)
        present = graphs.graphs.get(GRAPH_ATTR)
        widths = [descriptors.size(1), embedding.size(1), 0 if present is None else min(columns, present.size(1))]
        if widths != self.widths.tolist():
            raise ValueError(
                f"descriptors: expected {self.widths.tolist()} descriptors, embedding and columns of a molecule, as in "
                f"training, got {widths}; use the RDKit of training, or fit again"
            )
        return join_inputs(
            [descriptors, embedding, *([present[:, -columns:]] if present is not None and columns else [])]
        )

    def outputs(self, graphs: PackedGraphs, task: Task, device: str = "cpu") -> Tensor:
        """The outputs of both, in units of those of networks: [2, G, T]."""
        inputs = self.inputs(graphs, device)
        return torch.stack([as_outputs(self.forest.predict(inputs), task), self.ridge.outputs(inputs, task)])


class FittedModels(NamedTuple):
    """Both models, and their outputs for each molecule without what they learned from it, [2, R, T].

    Those of a molecule that all trees learned from are NaN.
    """

    models: DescriptorModels
    held_out: Tensor


def fit_descriptor_models(
    blocks: Sequence[Tensor], values: Tensor, keys: Sequence[str], weights: Tensor | None, task: Task, seed: int
) -> FittedModels:
    """Both models, of descriptors, an embedding and columns of ``--features``, the ``blocks`` [R, F] of their inputs.

    ``values`` [R, T] are standardized numbers or labels, NaN where missing or held out; ``weights`` are [R] or [R, T].
    Duplicates have equal ``keys``. Both have a third of the prediction, nothing of that of a target which fewer than
    :data:`dgn.molecules.forest.FEWEST` molecules teach.
    """
    inputs, widths = join_inputs(blocks), [block.size(1) for block in blocks]
    weight = teaching_weight(values, weights)
    forest, out_of_bag = fit_forest(inputs, values, keys, weight, task, seed, widths[2] > 0)
    ridge, out_of_fold = fit_kernel_ridge(inputs, distance_factors(widths), values, keys, weight, task, seed)
    sizes, equal = torch.tensor(widths, dtype=torch.int32), torch.full((3, values.size(1)), SHARE, dtype=torch.float64)
    models = DescriptorModels(forest, ridge, sizes, equal[1:], _checksum()).with_shares(equal)
    return FittedModels(models, torch.stack([out_of_bag, out_of_fold]))


def distance_factors(widths: Sequence[int]) -> Tensor:
    """Factors of standardized inputs in a distance, [F]: a block of them counts the same, however wide it is.

    Descriptors and fingerprints of a molecule, or of each of a pair, are blocks of their own.
    """
    kinds = descriptor_widths(parse_descriptors(DESCRIPTORS))
    molecules = widths[0] // sum(kinds)
    blocks = zip([*kinds * molecules, *widths[1:]], [*IN_DISTANCE * molecules, 1.0, 1.0], strict=True)
    return torch.cat([torch.full((width,), count * max(width, 1) ** -0.5) for width, count in blocks])


def embed(graphs: PackedGraphs, device: str = "cpu") -> Tensor:
    """What the head of ``NETWORK`` reads of molecules, [G, F]; nothing of pairs, which it does not know."""
    if is_paired(graphs):
        return torch.zeros(len(graphs), 0)
    nodes, edges = {"x": graphs.nodes["x"]}, {"edge_attr": graphs.edges["edge_attr"]}
    bare = PackedGraphs(graphs.node_pointer, graphs.edge_pointer, graphs.edge_index, nodes, edges)
    return _network(device).embed(bare)


def join_inputs(blocks: Sequence[Tensor]) -> Inputs:
    """Inputs side by side, float32; NaN where RDKit has no descriptor."""
    inputs: Inputs = torch.cat([block.float() for block in blocks], dim=1).numpy()
    return inputs


def member_outputs(ensemble: TrainedModel, graphs: PackedGraphs, models: DescriptorModels | None) -> Tensor:
    """The outputs of all networks, and those of descriptor models behind them, if there are any: [M, G, T]."""
    outputs = ensemble.outputs(graphs)
    if models is None:
        return outputs
    if not len(graphs):
        return outputs.new_zeros(len(outputs) + 2, 0, outputs.size(2))
    return torch.cat([outputs, models.outputs(graphs, TASKS[ensemble.signature.objective], ensemble.device.type)])


def member_weights(count: int, models: DescriptorModels | None, targets: int) -> Tensor:
    """The weights of ``count`` members in the prediction, those on descriptors last: [M, 1, T], of sum 1.

    >>> member_weights(4, None, 1).flatten().tolist()
    [0.25, 0.25, 0.25, 0.25]
    """
    if models is None:
        return torch.full((count, 1, targets), 1 / count, dtype=torch.float64)
    networks = ((1 - models.weight.sum(dim=0)) / (count - 2)).expand(count - 2, -1)
    return torch.cat([networks, models.weight])[:, None]


@cache
def _network(device: str) -> TrainedModel:
    stored = read_model(find_pretrained(NETWORK))
    training = replace(stored.experiment.training, precision="32-true")  # TF32 would move molecules to other leaves
    return TrainedModel.of(replace(stored, experiment=replace(stored.experiment, training=training)), device)


@cache
def _checksum() -> Tensor:
    return torch.tensor(list(sha256((find_pretrained(NETWORK) / WEIGHTS).read_bytes()).digest()), dtype=torch.uint8)
