"""Several networks that are asked about the same molecules, here or in other processes."""

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.data.benchmark import ATOMS, BONDS
from dgn.data.packed import PackedGraphs
from dgn.data.precompute.directions import add_directions
from dgn.data.precompute.encodings import add_structure
from dgn.data.prefetch import prefetch
from dgn.molecules.featurize import featurize, featurize_chunks
from dgn.molecules.structure import trained_structure
from dgn.nn import DGN
from dgn.training.build import Inputs, build_member
from dgn.training.experiment import Experiment
from dgn.training.inference import predict_ensemble

Weights = Mapping[str, Tensor]


class Ensemble:
    """Networks of one shape.

    Laws: what it says of a molecule depends neither on the molecules beside it nor on their order, up to rounding.
    """

    def __init__(
        self, experiment: Experiment, delta: float, targets: int, weights: Sequence[Weights], device: torch.device | str
    ) -> None:
        self.experiment, self.device = experiment, torch.device(device)
        self.delta, self.targets = delta, targets
        self.structure = trained_structure(experiment.data, weights[0]) if weights else None
        inputs = Inputs(ATOMS, BONDS, targets, self.structure)
        self.networks = [build_member(experiment.network, inputs, delta) for _ in weights]
        for network, values in zip(self.networks, weights, strict=True):
            _load(network, values)
            network.to(self.device).eval()

    def __call__(self, graphs: PackedGraphs) -> Tensor:
        """What each member says of each molecule: [M, G, T] on the CPU."""
        return predict_ensemble(
            self.networks, self.experiment.network, self.targets, self.complete(graphs), self.device
        )

    def complete(self, graphs: PackedGraphs) -> PackedGraphs:
        """Molecules with the directions and structural numbers that the networks read."""
        wanted = self.experiment.num_directions
        given = graphs.edges["field"].size(1) if "field" in graphs.edges else 0
        if given < wanted:  # settings that were searched for may ask for more than the usual ones
            graphs = add_directions(graphs, wanted, self.experiment.data.normalization)
        return graphs if self.structure is None else add_structure(graphs, self.structure)


class Answer(NamedTuple):
    """What each member says of the molecules of a chunk that could be read, [M, G, T], and the problems of all."""

    said: Tensor
    problems: list[str]


def predict_chunks(ensemble: Ensemble, chunks: Iterable[Sequence[str]], workers: int = 0) -> Iterator[Answer]:
    """Ask about SMILES chunk by chunk, in order.

    On the CPU ``workers`` processes do all of it; with a GPU, which is faster than they are, they read SMILES alone.
    """
    if workers and ensemble.device.type == "cpu":
        weights = [{name: t.cpu().numpy() for name, t in one.state_dict().items()} for one in ensemble.networks]
        told = pickle.dumps((ensemble.experiment, ensemble.delta, ensemble.targets, weights))
        for said, problems in prefetch(partial(_ask_there, told), chunks, workers):
            yield Answer(torch.from_numpy(said), problems)
        return
    for graphs, problems in featurize_chunks(chunks, workers):
        yield Answer(ensemble(graphs), problems)


def _ask_there(told: bytes, smiles: list[str]) -> tuple[Any, list[str]]:
    graphs, problems = featurize(smiles)
    return _rebuild(told)(graphs).numpy(), problems


@lru_cache(maxsize=1)  # a process is asked about many chunks
def _rebuild(told: bytes) -> Ensemble:
    experiment, delta, targets, weights = pickle.loads(told)  # our own words, from the process that started this one
    tensors = [{name: torch.from_numpy(array) for name, array in one.items()} for one in weights]
    return Ensemble(experiment, delta, targets, tensors, "cpu")


def _load(network: DGN, weights: Weights) -> None:
    try:
        network.load_state_dict(dict(weights))
    except RuntimeError as problem:
        raise ValueError(f"weights: expected those of the network in model.json, got others; {problem}") from problem
