"""Structural encodings of nodes and edges (random walks, rings, edge types), and the scale of features of graphs."""

from dgn.encodings.edge_types import EdgeTypes
from dgn.encodings.random_walks import return_probabilities
from dgn.encodings.rings import Rings, ring_counts
from dgn.encodings.scaling import Standardization, Structure

__all__ = [
    "EdgeTypes",
    "Rings",
    "Standardization",
    "Structure",
    "return_probabilities",
    "ring_counts",
]
