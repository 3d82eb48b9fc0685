"""Directional graph networks: vector fields on graphs, and networks that aggregate along them."""

import importlib
from types import ModuleType

from dgn import nn
from dgn.aggregation import average_log_degree
from dgn.fields import (
    arcsine,
    backward_field,
    directional_derivative,
    distort,
    distort_potential,
    divergence,
    edge_product,
    forward_field,
    gradient,
    harden,
    inner_product,
    node_product,
    normalize,
    reflect,
    rotate,
    row_norm,
)
from dgn.graph import Graph, as_graph
from dgn.operators import Operator, Walks, derivative, smoothing, walks
from dgn.spectral import Directions, diffusion_distance, directions, gradient_step, heat_kernel, laplacian

__version__ = "0.1.0"

__all__ = [
    "Directions",
    "Graph",
    "Operator",
    "Walks",
    "arcsine",
    "as_graph",
    "average_log_degree",
    "backward_field",
    "derivative",
    "diffusion_distance",
    "directional_derivative",
    "directions",
    "distort",
    "distort_potential",
    "divergence",
    "edge_product",
    "forward_field",
    "gradient",
    "gradient_step",
    "harden",
    "heat_kernel",
    "inner_product",
    "laplacian",
    "nn",
    "node_product",
    "normalize",
    "reflect",
    "rotate",
    "row_norm",
    "smoothing",
    "testing",
    "transforms",
    "walks",
]


def __getattr__(name: str) -> ModuleType:
    """Import PyG and the testing tools only when they are used."""
    if name in ("testing", "transforms"):
        return importlib.import_module(f"dgn.{name}")
    raise AttributeError(f"module 'dgn' has no attribute {name!r}")
