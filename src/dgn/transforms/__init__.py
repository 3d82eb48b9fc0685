"""PyG transforms: directions, coordinates as directions, structure in numbers, and augmentations of the field."""

from dgn.transforms.augmentations import RandomDistortion, RandomReflection, RandomRotation
from dgn.transforms.directions import AddCoordinates, AddDirections
from dgn.transforms.structure import AddAffinities, AddCliques, AddReturnProbabilities, AddRings

__all__ = [
    "AddAffinities",
    "AddCliques",
    "AddCoordinates",
    "AddDirections",
    "AddReturnProbabilities",
    "AddRings",
    "RandomDistortion",
    "RandomReflection",
    "RandomRotation",
]
