"""Predictions of an ensemble of networks for chunks of SMILES, in this process or in workers."""

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.data.packed import PackedGraphs
from dgn.data.prefetch import prefetch
from dgn.molecules.domain import Comparison, Domain
from dgn.molecules.featurize import Valence, featurize, featurize_chunks
from dgn.training.model import TrainedModel
from dgn.training.model_io import StoredModel


class ChunkOutput(NamedTuple):
    """The outputs of each member for the readable molecules of a chunk, [M, G, T]; problems and remarks of all rows.

    Embeddings of all members are side by side, [1, G, C]. ``comparison`` relates the readable molecules to those of
    training, if a domain is given.
    """

    outputs: Tensor
    problems: list[str]
    remarks: list[str]
    comparison: Comparison | None


def predict_chunks(
    ensemble: TrainedModel,
    chunks: Iterable[Sequence[str]],
    workers: int = 0,
    embedding: bool = False,
    domain: Domain | None = None,
    valence: Valence = "refuse",
) -> Iterator[ChunkOutput]:
    """The outputs for chunks of SMILES, in order, or embeddings.

    On the CPU, ``workers`` processes featurize and predict; with a GPU, they only featurize.
    """
    if workers and ensemble.device.type == "cpu":
        weights = [network.state_dict() for network in ensemble.networks]
        payload = pickle.dumps((StoredModel(ensemble.experiment, ensemble.signature, weights), domain))
        work = partial(_predict_in_worker, payload, embedding, valence)
        for outputs, problems, remarks, comparison in prefetch(work, chunks, workers):
            yield ChunkOutput(torch.from_numpy(outputs), problems, remarks, comparison)
        return
    for graphs, problems, remarks in featurize_chunks(chunks, workers, ensemble.signature.featurization, valence):
        yield ChunkOutput(_compute(ensemble, graphs, embedding), problems, remarks, _compare(domain, graphs))


def _predict_in_worker(
    payload: bytes, embedding: bool, valence: Valence, smiles: list[str]
) -> tuple[Any, list[str], list[str], Comparison | None]:
    ensemble, domain = _rebuild(payload)
    graphs, problems, remarks = featurize(smiles, ensemble.signature.featurization, valence)
    return _compute(ensemble, graphs, embedding).numpy(), problems, remarks, _compare(domain, graphs)


def _compare(domain: Domain | None, graphs: PackedGraphs) -> Comparison | None:
    return None if domain is None else domain.compare(graphs)


def _compute(ensemble: TrainedModel, graphs: PackedGraphs, embedding: bool) -> Tensor:
    return ensemble.embed(graphs)[None] if embedding else ensemble.outputs(graphs)


@lru_cache(maxsize=1)  # a worker predicts many chunks
def _rebuild(payload: bytes) -> tuple[TrainedModel, Domain | None]:
    stored, domain = pickle.loads(payload)  # trusted: written by the parent process
    return TrainedModel.of(stored, "cpu"), domain
