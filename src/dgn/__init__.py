"""Directional graph networks: vector fields on graphs, and networks that aggregate along them.

Everything is loaded when it is first used: importing the package costs nothing.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dgn import nn, testing, transforms
    from dgn.aggregation import average_log_degree
    from dgn.fields import (
        arccosine,
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
    from dgn.models.load import load_model, load_pretrained
    from dgn.molecules.estimators import DGNClassifier, DGNRegressor
    from dgn.nn.settings import NetworkSettings
    from dgn.operators import Operator, Walks, derivative, group_derivative, group_smoothing, smoothing, walks
    from dgn.spectral import (
        Directions,
        diffusion_distance,
        directions,
        gradient_step,
        heat_kernel,
        laplacian,
        solve_laplacian,
        whole_eigenspaces,
    )
    from dgn.training.config import AugmentationSettings, DataSettings, TrainingSettings
    from dgn.training.experiment import Experiment, load_experiment
    from dgn.training.run_experiment import train_experiment

__version__ = "0.1.0"

__all__ = [
    "AugmentationSettings",
    "DGNClassifier",
    "DGNRegressor",
    "DataSettings",
    "Directions",
    "Experiment",
    "Graph",
    "NetworkSettings",
    "Operator",
    "TrainingSettings",
    "Walks",
    "arccosine",
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
    "group_derivative",
    "group_smoothing",
    "harden",
    "heat_kernel",
    "inner_product",
    "laplacian",
    "load_experiment",
    "load_model",
    "load_pretrained",
    "nn",
    "node_product",
    "normalize",
    "reflect",
    "rotate",
    "row_norm",
    "smoothing",
    "solve_laplacian",
    "testing",
    "train_experiment",
    "transforms",
    "walks",
    "whole_eigenspaces",
]

_PACKAGES = (
    *("aggregation", "data", "encodings", "fields", "graph", "models", "molecules"),
    *("nn", "operators", "spectral", "testing", "transforms"),
)
# Whose names are importable from here.
_HOMES = (
    *("aggregation", "fields", "graph", "operators", "spectral", "nn.settings"),
    *("training.config", "training.experiment", "training.run_experiment", "models.load", "molecules.estimators"),
)


def __getattr__(name: str) -> object:
    if name in _PACKAGES:
        return importlib.import_module(f"dgn.{name}")
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(f"dgn.{home}")
            if name in module.__all__:
                globals()[name] = getattr(module, name)
                return globals()[name]
    raise AttributeError(f"module 'dgn' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
