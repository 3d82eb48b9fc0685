"""Vector fields on graphs: calculus, directed graphs, normalisation, shaping and augmentation."""

from dgn.fields.augmentation import distort, distort_potential, reflect, rotate
from dgn.fields.calculus import (
    directional_derivative,
    divergence,
    edge_product,
    gradient,
    inner_product,
    node_product,
    row_norm,
)
from dgn.fields.directed import Orientation, orientation, phase_difference
from dgn.fields.normalization import normalize
from dgn.fields.shaping import arccosine, arcsine, backward_field, forward_field, harden

__all__ = [
    "Orientation",
    "arccosine",
    "arcsine",
    "backward_field",
    "directional_derivative",
    "distort",
    "distort_potential",
    "divergence",
    "edge_product",
    "forward_field",
    "gradient",
    "harden",
    "inner_product",
    "node_product",
    "normalize",
    "orientation",
    "phase_difference",
    "reflect",
    "rotate",
    "row_norm",
]
