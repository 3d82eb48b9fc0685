"""Predictions of an ensemble of networks for chunks of SMILES, in this process or in workers."""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.data.datasets.smiles import AND
from dgn.data.packed import PackedGraphs
from dgn.data.prefetch import prefetch
from dgn.molecules.descriptor_models import DescriptorModels, member_outputs
from dgn.molecules.domain import Comparison, Domain
from dgn.molecules.featurize import Valence, featurize, featurize_chunks
from dgn.molecules.rows import with_features
from dgn.training.model import TrainedModel
from dgn.training.model_io import StoredModel


class ChunkOutput(NamedTuple):
    """The outputs of each member for the readable molecules of a chunk, [M, G, T]; problems and remarks of all rows.

    The outputs of descriptor models are the last.

    Embeddings of all members are side by side, [1, G, C]. ``comparison`` relates the readable molecules to those of
    training, if a domain is given.
    """

    outputs: Tensor
    problems: list[str]
    remarks: list[str]
    comparison: Comparison | None


class Chunk(NamedTuple):
    """SMILES, and the features of their molecules, [R, F], if the networks read some; an array, to be pickled."""

    smiles: Sequence[str]
    features: NDArray[np.float64] | None = None


def predict_chunks(
    ensemble: TrainedModel,
    chunks: Iterable[Chunk],
    workers: int = 0,
    embedding: bool = False,
    domain: Domain | None = None,
    valence: Valence = "refuse",
    models: DescriptorModels | None = None,
) -> Iterator[ChunkOutput]:
    """The outputs for chunks of SMILES, in order, or embeddings.

    On the CPU, ``workers`` processes featurize and predict; with a GPU, they only featurize.
    """
    if workers and ensemble.device.type == "cpu":
        weights = [network.state_dict() for network in ensemble.networks]
        payload = pickle.dumps((StoredModel(ensemble.experiment, ensemble.signature, weights), domain, models))
        work = partial(_predict_in_worker, payload, embedding, valence)
        for outputs, problems, remarks, comparison in prefetch(work, chunks, workers):
            yield ChunkOutput(torch.from_numpy(outputs), problems, remarks, comparison)
        return
    features: list[NDArray[np.float64] | None] = []  # of the chunks whose SMILES workers featurize

    def texts() -> Iterator[Sequence[str]]:
        for chunk in chunks:
            features.append(chunk.features)
            yield chunk.smiles

    for graphs, problems, remarks in featurize_chunks(texts(), workers, _featurization(ensemble, embedding), valence):
        graphs = _with_features(graphs, problems, features.pop(0))
        yield ChunkOutput(_compute(ensemble, graphs, embedding, models), problems, remarks, _compare(domain, graphs))


def _predict_in_worker(
    payload: bytes, embedding: bool, valence: Valence, chunk: Chunk
) -> tuple[Any, list[str], list[str], Comparison | None]:
    ensemble, domain, models = _rebuild(payload)
    graphs, problems, remarks = featurize(chunk.smiles, _featurization(ensemble, embedding), valence)
    graphs = _with_features(graphs, problems, chunk.features)
    return _compute(ensemble, graphs, embedding, models).numpy(), problems, remarks, _compare(domain, graphs)


def _featurization(ensemble: TrainedModel, embedding: bool) -> str:
    """The features of molecules; embeddings are those of networks, which need no descriptors of other members."""
    featurization = ensemble.signature.featurization
    return AND.join(featurization.split(AND)[:2]) if embedding else featurization


def _with_features(graphs: PackedGraphs, problems: Sequence[str], features: NDArray[np.float64] | None) -> PackedGraphs:
    is_used = np.array([not problem for problem in problems], dtype=bool)
    return with_features(graphs, None if features is None else torch.from_numpy(features[is_used]))


def _compare(domain: Domain | None, graphs: PackedGraphs) -> Comparison | None:
    return None if domain is None else domain.compare(graphs)


def _compute(ensemble: TrainedModel, graphs: PackedGraphs, embedding: bool, models: DescriptorModels | None) -> Tensor:
    return ensemble.embed(graphs)[None] if embedding else member_outputs(ensemble, graphs, models)


@lru_cache(maxsize=1)  # a worker predicts many chunks
def _rebuild(payload: bytes) -> tuple[TrainedModel, Domain | None, DescriptorModels | None]:
    stored, domain, models = pickle.loads(payload)  # trusted: written by the parent process
    return TrainedModel.of(stored, "cpu"), domain, models
