"""Vector fields on graphs: calculus, normalisation, shaping and augmentation."""

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
from dgn.fields.normalization import normalize
from dgn.fields.shaping import arccosine, arcsine, backward_field, forward_field, harden

__all__ = [
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
    "reflect",
    "rotate",
    "row_norm",
]
