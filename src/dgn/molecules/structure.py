"""Structural numbers of molecules that a trained network is asked about."""

from collections.abc import Mapping

from torch import Tensor

from dgn.data.benchmark import BONDS
from dgn.encodings import EdgeTypes, Structure
from dgn.training.config import DataSettings

SCALE, OFFSET, KINDS = "structure.scale", "structure.offset", "edge_encoder.features"  # among the weights


def trained_structure(data: DataSettings, weights: Mapping[str, Tensor]) -> Structure | None:
    """The scale and the kinds of bonds that a network was trained with; they are kept with its weights.

    >>> trained_structure(DataSettings(dataset="table"), {}) is None
    True
    """
    if not data.structural:
        return None
    wanted = [SCALE, OFFSET, *([KINDS] if data.ring_sizes else [])]
    width = data.rwse_steps + len(data.ring_sizes)
    missing = [name for name in wanted if name not in weights]
    if missing or len(weights[SCALE]) != width:
        raise ValueError(
            f"weights: expected those of a network with {width} structural numbers, as model.json says, got "
            f"{f'none called {missing[0]}' if missing else len(weights[SCALE])}; fit again"
        )
    kinds = EdgeTypes.of_features(weights[KINDS], BONDS) if data.ring_sizes else None
    return Structure(data.rwse_steps, data.ring_sizes, weights[SCALE], weights[OFFSET], kinds)
