"""Aggregation matrices as edge and self weights, and walks composed of them."""

from dgn.operators.groups import group_derivative, group_smoothing
from dgn.operators.operator import Operator
from dgn.operators.radius import Walks, walks
from dgn.operators.weights import derivative, smoothing

__all__ = ["Operator", "Walks", "derivative", "group_derivative", "group_smoothing", "smoothing", "walks"]
