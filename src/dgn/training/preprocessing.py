"""Preprocessing: what a network reads beside the features of graphs, in training and at inference alike."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from torch import Tensor

from dgn.data.benchmark import GRAPH_ATTR
from dgn.data.datasets.from_graphs import as_2d_features
from dgn.data.packed import PackedGraphs
from dgn.data.precompute import directions, encodings
from dgn.graph.columns import as_columns
from dgn.training.build import Columns
from dgn.training.config import NetworkSettings
from dgn.training.signature import Signature

OF_DIRECTIONS = ("node_potential", "repeated", "gap", "edge_field")  # values with a column for each
VERSIONS = {"directions": directions.CACHE_FORMAT.name, "encodings": encodings.CACHE_FORMAT.name}


def preprocess(graphs: PackedGraphs, signature: Signature, cache: Path | None = None) -> PackedGraphs:
    """The graphs with all inputs of a network: features in columns, directions and structural encodings.

    Directions and encodings that graphs have already are used, directions of another Laplacian excepted. New graphs get
    the scale and the edge types of the training graphs. No more directions are left than the network was trained with:
    augmentation draws for each of them. Eigenvectors are cached in the folder ``cache``.
    Law: a graph gets the same inputs in training and at inference.
    """
    graphs = _with_structure(as_2d_features(graphs), signature)
    expected, present = (
        signature.num_directions,
        graphs.edges["edge_field"].size(1) if "edge_field" in graphs.edges else 0,
    )
    if signature.has_field:
        if present < expected:
            raise ValueError(
                f"field: expected {expected} directions of each edge, as in {signature.dataset}, got {present}; add "
                "them with dgn.transforms.AddCoordinates, or as they were made for training"
            )
        return graphs
    if present < expected or (expected and _is_of_another_laplacian(graphs, signature)):
        return directions.add_directions(
            graphs, expected, signature.normalization, cache=cache, arcsine=signature.arcsine
        )
    return graphs if present == expected else first_directions(graphs, expected)


def _with_structure(graphs: PackedGraphs, signature: Signature) -> PackedGraphs:
    """The graphs with structural encodings; those of another network, whose edges have other types, are refused."""
    if encodings.STRUCTURE not in graphs.nodes:
        return graphs if signature.structure is None else encodings.add_encodings(graphs, signature.structure)
    expected = encodings.describe_structure(signature.structure)
    present = graphs.info.get(encodings.STRUCTURE, expected)  # encodings of unknown origin are taken as they are
    if present != expected:
        raise ValueError(
            f"data: expected graphs {f'with {expected}' if expected else 'without structural encodings'}, got "
            f"{present}; pass the graphs without them"
        )
    return graphs


def first_directions(graphs: PackedGraphs, count: int) -> PackedGraphs:
    """The graphs with so many directions of those that they have; with none, without a field."""

    def first(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
        few = {name: values[name][:, :count].contiguous() for name in OF_DIRECTIONS if name in values and count}
        return {name: value for name, value in values.items() if name not in OF_DIRECTIONS} | few

    return replace(graphs, nodes=first(graphs.nodes), edges=first(graphs.edges))


def _is_of_another_laplacian(graphs: PackedGraphs, signature: Signature) -> bool:
    """Whether directions are known to have another normalization or arcsine; fields of unknown origin are not."""
    info = graphs.info.get("directions")
    if info is None:
        return False
    request = json.loads(info)
    return (request["normalization"], request["arcsine"]) != (signature.normalization, signature.arcsine)


def check_features(graphs: PackedGraphs, signature: Signature, network: NetworkSettings) -> None:
    """Refuse preprocessed graphs whose features are of another type or width, or of unknown categories."""
    inputs, structure = signature.inputs, signature.structure
    _check_columns("x", graphs.nodes, inputs.nodes, signature.dataset)
    if network.edge_dim and inputs.edges is not None and (structure is None or structure.edge_types is None):
        _check_columns("edge_attr", graphs.edges, inputs.edges, signature.dataset)
    if inputs.features is not None:
        _check_columns(GRAPH_ATTR, graphs.graphs, len(inputs.features.scale), signature.dataset)
    if network.reads_potential and "node_potential" not in graphs.nodes:
        raise ValueError(
            f"potential: expected values of nodes, as in {signature.dataset}, got none; add them as they were made for "
            "training, as dgn.transforms.AddCoordinates does"
        )


def _check_columns(name: str, values: Mapping[str, Tensor], columns: Columns, dataset: str) -> None:
    is_continuous = isinstance(columns, int)
    expected = _describe(is_continuous, columns if isinstance(columns, int) else len(columns))
    value = values.get(name)
    got = "nothing" if value is None else _describe(value.is_floating_point(), as_columns(value).size(1))
    if value is None or got != expected:
        raise ValueError(f"{name}: expected {expected}, as in {dataset}, got {got}; pass the same features")
    if isinstance(columns, int):
        return
    for index, (column, count) in enumerate(zip(as_columns(value).unbind(1), columns, strict=True)):
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < count:
            wrong = int(column.min()) if int(column.min()) < 0 else int(column.max())
            raise ValueError(
                f"{name}: expected categories below {count} in column {index}, as in {dataset}, got {wrong}; number "
                "them as in training"
            )


def _describe(is_continuous: bool, columns: int) -> str:
    return f"{'numbers' if is_continuous else 'categories'} in {columns} columns"
