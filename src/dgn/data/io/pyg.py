"""What the graphs of a PyG dataset carry, as tables of nodes, edges and graphs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

NUMBERS = Tensor | int | float | np.number | np.bool_  # what is kept; words and objects are left out


def tables(given: Sequence[Any]) -> dict[str, dict[str, Tensor]]:
    """The tensors and numbers of many ``Data``, joined: ``{"nodes": {...}, "edges": {...}, "graphs": {...}}``.

    What has neither a row per node nor per edge in every graph belongs to the graphs: [T] and [1, T] become [G, T],
    one number becomes [G].
    """
    sizes = {
        "nodes": [data.num_nodes for data in given],
        "edges": [data.num_edges for data in given],
        "graphs": [1] * len(given),
    }
    found: dict[str, dict[str, Tensor]] = {"nodes": {}, "edges": {}, "graphs": {}}
    for name in _shared_names(given):
        values = [torch.as_tensor(data[name]) for data in given]
        rows = [len(value) if value.dim() else None for value in values]
        # Where several fit, as in a collection of single edges, the name decides.
        likely = "edges" if "edge" in name or name == "field" else "graphs" if name == "y" else "nodes"
        kind = next((kind for kind in (likely, *sizes) if rows == sizes[kind]), "graphs")
        values = values if kind != "graphs" else [_row(value) for value in values]
        for number, value in enumerate(values):
            if value.shape[1:] != values[0].shape[1:]:
                raise ValueError(
                    f"{name} of graph {number}: expected rows of shape {list(values[0].shape[1:])}, as in graph 0, got "
                    f"{list(value.shape[1:])}; give all graphs the same columns"
                )
        found[kind][name] = torch.cat(values)
    return found


def _shared_names(given: Sequence[Any]) -> list[str]:
    """The attributes that hold tensors or numbers; every graph must have them, beside its edges and number of nodes."""
    packed_apart = {"edge_index", "num_nodes"}
    names = [{name for name in data.keys() if isinstance(data[name], NUMBERS)} - packed_apart for data in given]  # noqa: SIM118
    known = set().union(*names)
    for number, own in enumerate(names):
        if own != known:
            raise ValueError(
                f"graph {number}: expected the attributes {', '.join(sorted(known))}, as in the other graphs, got no "
                f"{', '.join(sorted(known - own))}; add them, or remove them everywhere"
            )
    return sorted(known)


def _row(value: Tensor) -> Tensor:
    """The value of one graph with a dimension for the graphs in front."""
    whole = value.dim() == 0 or (value.dim() == 1 and len(value) != 1)
    return value[None] if whole else value
