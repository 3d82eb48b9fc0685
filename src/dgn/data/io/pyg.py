"""Attributes of a PyG dataset, concatenated by node, edge and graph."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

NUMBERS = Tensor | int | float | np.number | np.bool_  # other attributes, such as strings, are dropped


def tables(dataset: Sequence[Any]) -> dict[str, dict[str, Tensor]]:
    """The concatenated tensors and numbers of many ``Data``: ``{"nodes": {...}, "edges": {...}, "graphs": {...}}``.

    An attribute without a row per node or per edge in every graph is a graph-level attribute: [T] and [1, T] become
    [G, T], scalars become [G].
    """
    sizes = {
        "nodes": [data.num_nodes for data in dataset],
        "edges": [data.num_edges for data in dataset],
        "graphs": [1] * len(dataset),
    }
    tensors: dict[str, dict[str, Tensor]] = {"nodes": {}, "edges": {}, "graphs": {}}
    for name in _shared_names(dataset):
        values = [torch.as_tensor(data[name]) for data in dataset]
        rows = [len(value) if value.dim() else None for value in values]
        # If several levels fit, as in a dataset of single edges, the name decides.
        likely = "edges" if "edge" in name else "graphs" if name in ("y", "graph_attr") else "nodes"
        level = next((level for level in (likely, *sizes) if rows == sizes[level]), "graphs")
        values = values if level != "graphs" else [_row(value) for value in values]
        for index, value in enumerate(values):
            if value.shape[1:] != values[0].shape[1:]:
                raise ValueError(
                    f"{name} of graph {index}: expected rows of shape {list(values[0].shape[1:])}, as in graph 0, got "
                    f"{list(value.shape[1:])}; give all graphs the same columns"
                )
        tensors[level][name] = torch.cat(values)
    return tensors


def _shared_names(dataset: Sequence[Any]) -> list[str]:
    """The names of tensors and numbers besides ``edge_index`` and ``num_nodes``, which every graph must have."""
    structure = {"edge_index", "num_nodes"}
    names = [{name for name in data.keys() if isinstance(data[name], NUMBERS)} - structure for data in dataset]  # noqa: SIM118
    union = set().union(*names)
    for index, present in enumerate(names):
        if present != union:
            raise ValueError(
                f"graph {index}: expected the attributes {', '.join(sorted(union))}, as in the other graphs, got no "
                f"{', '.join(sorted(union - present))}; add them, or remove them everywhere"
            )
    return sorted(union)


def _row(value: Tensor) -> Tensor:
    """The attribute of one graph with a leading dimension of 1."""
    lacks_dimension = value.dim() == 0 or (value.dim() == 1 and len(value) != 1)
    return value[None] if lacks_dimension else value
