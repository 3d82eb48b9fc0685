"""What a graph looks like around a node or an edge, in numbers that do not depend on how nodes are numbered."""

from dgn.structure.inputs import Structure
from dgn.structure.kinds import Kinds
from dgn.structure.rings import Rings, ring_counts
from dgn.structure.walk import return_probabilities

__all__ = [
    "Kinds",
    "Rings",
    "Structure",
    "return_probabilities",
    "ring_counts",
]
