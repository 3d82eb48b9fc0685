"""Predictions of an ensemble of networks, in this process or in workers."""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmark import ATOMS, BONDS
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import add_encodings
from dgn.data.prefetch import prefetch
from dgn.molecules.encodings import trained_encodings
from dgn.molecules.featurize import featurize, featurize_chunks
from dgn.nn import DGN
from dgn.training.build import Inputs, build_member
from dgn.training.experiment import Experiment
from dgn.training.inference import predict_ensemble

Weights = Mapping[str, Tensor]


class Ensemble:
    """Trained networks of one architecture.

    Laws: the prediction for a molecule is independent of the other molecules and of their order, up to rounding.
    """

    def __init__(
        self, experiment: Experiment, delta: float, targets: int, weights: Sequence[Weights], device: torch.device | str
    ) -> None:
        self.experiment, self.device = experiment, torch.device(device)
        self.delta, self.targets = delta, targets
        self.structure = trained_encodings(experiment.data, weights[0]) if weights else None
        inputs = Inputs(ATOMS, BONDS, targets, self.structure)
        self.networks = [build_member(experiment.network, inputs, delta) for _ in weights]
        for network, tensors in zip(self.networks, weights, strict=True):
            _load(network, tensors)
            network.to(self.device).eval()

    def __call__(self, graphs: PackedGraphs) -> Tensor:
        """The outputs of each member for each molecule: [M, G, T] on the CPU."""
        graphs = self.add_required_inputs(graphs)
        return predict_ensemble(self.networks, self.experiment.network, self.targets, graphs, self.device)

    def add_required_inputs(self, graphs: PackedGraphs) -> PackedGraphs:
        """The graphs with the directions and structural encodings that the networks read."""
        required = self.experiment.num_directions
        present = graphs.edges["field"].size(1) if "field" in graphs.edges else 0
        if present < required:  # a search may choose settings with more directions than the default
            graphs = add_directions(graphs, required, self.experiment.data.normalization)
        return graphs if self.structure is None else add_encodings(graphs, self.structure)


class ChunkOutput(NamedTuple):
    """The outputs of each member for the readable molecules of a chunk, [M, G, T], and the problems of all rows."""

    outputs: Tensor
    problems: list[str]


def predict_chunks(ensemble: Ensemble, chunks: Iterable[Sequence[str]], workers: int = 0) -> Iterator[ChunkOutput]:
    """The outputs for chunks of SMILES, in order.

    On the CPU, ``workers`` processes featurize and predict; with a GPU, they only featurize.
    """
    if workers and ensemble.device.type == "cpu":
        weights = [{name: t.cpu().numpy() for name, t in net.state_dict().items()} for net in ensemble.networks]
        payload = pickle.dumps((ensemble.experiment, ensemble.delta, ensemble.targets, weights))
        for outputs, problems in prefetch(partial(_predict_in_worker, payload), chunks, workers):
            yield ChunkOutput(torch.from_numpy(outputs), problems)
        return
    for graphs, problems in featurize_chunks(chunks, workers):
        yield ChunkOutput(ensemble(graphs), problems)


def _predict_in_worker(payload: bytes, smiles: list[str]) -> tuple[Any, list[str]]:
    graphs, problems = featurize(smiles)
    return _rebuild(payload)(graphs).numpy(), problems


@lru_cache(maxsize=1)  # a worker predicts many chunks
def _rebuild(payload: bytes) -> Ensemble:
    experiment, delta, targets, weights = pickle.loads(payload)  # trusted: written by the parent process
    tensors = [{name: torch.from_numpy(array) for name, array in arrays.items()} for arrays in weights]
    return Ensemble(experiment, delta, targets, tensors, "cpu")


def _load(network: DGN, weights: Weights) -> None:
    try:
        network.load_state_dict(dict(weights))
    except RuntimeError as problem:
        raise ValueError(f"weights: expected those of the network in model.json, got others; {problem}") from problem
