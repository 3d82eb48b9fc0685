"""Predictions of an ensemble of networks for chunks of SMILES, in this process or in workers."""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.data.packed import PackedGraphs
from dgn.data.prefetch import prefetch
from dgn.molecules.featurize import featurize, featurize_chunks
from dgn.training.model import TrainedModel
from dgn.training.model_io import StoredModel


class ChunkOutput(NamedTuple):
    """The outputs of each member for the readable molecules of a chunk, [M, G, T], and the problems of all rows.

    Embeddings of all members are side by side, [1, G, C].
    """

    outputs: Tensor
    problems: list[str]


def predict_chunks(
    ensemble: TrainedModel, chunks: Iterable[Sequence[str]], workers: int = 0, embedding: bool = False
) -> Iterator[ChunkOutput]:
    """The outputs for chunks of SMILES, in order, or embeddings.

    On the CPU, ``workers`` processes featurize and predict; with a GPU, they only featurize.
    """
    if workers and ensemble.device.type == "cpu":
        weights = [network.state_dict() for network in ensemble.networks]
        payload = pickle.dumps(StoredModel(ensemble.experiment, ensemble.signature, weights))
        for outputs, problems in prefetch(partial(_predict_in_worker, payload, embedding), chunks, workers):
            yield ChunkOutput(torch.from_numpy(outputs), problems)
        return
    for graphs, problems in featurize_chunks(chunks, workers, ensemble.signature.featurization):
        yield ChunkOutput(_compute(ensemble, graphs, embedding), problems)


def _predict_in_worker(payload: bytes, embedding: bool, smiles: list[str]) -> tuple[Any, list[str]]:
    ensemble = _rebuild(payload)
    graphs, problems = featurize(smiles, ensemble.signature.featurization)
    return _compute(ensemble, graphs, embedding).numpy(), problems


def _compute(ensemble: TrainedModel, graphs: PackedGraphs, embedding: bool) -> Tensor:
    return ensemble.embed(graphs)[None] if embedding else ensemble.outputs(graphs)


@lru_cache(maxsize=1)  # a worker predicts many chunks
def _rebuild(payload: bytes) -> TrainedModel:
    return TrainedModel.of(pickle.loads(payload), "cpu")  # trusted: written by the parent process
