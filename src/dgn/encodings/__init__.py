"""What a graph looks like around a node or an edge, in numbers that do not depend on how nodes are numbered."""

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
