"""PyG transforms: directions, coordinates as directions, structural encodings, and field augmentations."""

from dgn.transforms.augmentations import RandomBasis, RandomDistortion, RandomReflection, RandomRotation
from dgn.transforms.directions import AddCoordinates, AddDirections
from dgn.transforms.structure import AddRandomWalkPE, AddRings

__all__ = [
    "AddCoordinates",
    "AddDirections",
    "AddRandomWalkPE",
    "AddRings",
    "RandomBasis",
    "RandomDistortion",
    "RandomReflection",
    "RandomRotation",
]
