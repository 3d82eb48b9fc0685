"""Aggregation matrices as edge and self weights, walks composed of them, and the Hodge decomposition of fields."""

from dgn.operators.groups import group_derivative, group_smoothing
from dgn.operators.hodge import HodgeDecomposition, hodge_decomposition
from dgn.operators.operator import Operator
from dgn.operators.radius import Walks, walks
from dgn.operators.weights import derivative, smoothing

__all__ = [
    "HodgeDecomposition",
    "Operator",
    "Walks",
    "derivative",
    "group_derivative",
    "group_smoothing",
    "hodge_decomposition",
    "smoothing",
    "walks",
]
