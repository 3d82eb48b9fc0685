"""What a graph looks like around a node or an edge, in numbers that do not depend on how nodes are numbered."""

from dgn.encodings.cliques import Cliques, clique_counts
from dgn.encodings.edge_types import Kinds
from dgn.encodings.random_walks import edge_affinities, return_probabilities
from dgn.encodings.rings import Rings, ring_counts
from dgn.encodings.scaling import Affinities, Structure

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
