"""What a graph looks like around a node or an edge, in numbers that do not depend on how nodes are numbered."""

from dgn.structure.cliques import Cliques, clique_counts
from dgn.structure.inputs import Affinities, Structure
from dgn.structure.kinds import Kinds
from dgn.structure.rings import Rings, ring_counts
from dgn.structure.walk import edge_affinities, return_probabilities

__all__ = [
    "Affinities",
    "Cliques",
    "Kinds",
    "Rings",
    "Structure",
    "clique_counts",
    "edge_affinities",
    "return_probabilities",
    "ring_counts",
]
