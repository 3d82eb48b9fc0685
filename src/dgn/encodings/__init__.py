"""Structural encodings of nodes and edges: random-walk return probabilities, ring counts and edge types."""

from dgn.encodings.edge_types import EdgeTypes
from dgn.encodings.random_walks import return_probabilities
from dgn.encodings.rings import Rings, ring_counts
from dgn.encodings.scaling import Structure

__all__ = [
    "EdgeTypes",
    "Rings",
    "Structure",
    "return_probabilities",
    "ring_counts",
]
