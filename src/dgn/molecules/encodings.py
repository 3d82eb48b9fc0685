"""Structural encodings of molecules at prediction: the scale and the edge types of training."""

from collections.abc import Mapping

from torch import Tensor

from dgn.data.benchmark import BONDS
from dgn.encodings import EdgeTypes, Structure
from dgn.training.config import DataSettings

SCALE, OFFSET, EDGE_TYPES = "structure.scale", "structure.offset", "edge_encoder.features"  # among the weights


def trained_encodings(data: DataSettings, weights: Mapping[str, Tensor]) -> Structure | None:
    """The structural encodings that a network was trained with, read from its weights; None if it uses none.

    >>> trained_encodings(DataSettings(dataset="table"), {}) is None
    True
    """
    if not data.structural:
        return None
    required = [SCALE, OFFSET, *([EDGE_TYPES] if data.ring_sizes else [])]
    width = data.rwse_steps + len(data.ring_sizes)
    missing = [name for name in required if name not in weights]
    if missing or len(weights[SCALE]) != width:
        raise ValueError(
            f"weights: expected those of a network with {width} structural encodings, as in model.json, got "
            f"{f'none called {missing[0]}' if missing else len(weights[SCALE])}; fit again"
        )
    edge_types = EdgeTypes.of_features(weights[EDGE_TYPES], BONDS) if data.ring_sizes else None
    return Structure(data.rwse_steps, data.ring_sizes, weights[SCALE], weights[OFFSET], edge_types)
