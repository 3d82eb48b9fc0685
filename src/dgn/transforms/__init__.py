"""PyG transforms: directions, coordinates as directions, structural encodings, and field augmentations."""

from dgn.transforms.augmentations import RandomBasis, RandomDistortion, RandomReflection, RandomRotation
from dgn.transforms.directions import AddCoordinates, AddDirections, CheckDirections
from dgn.transforms.structure import AddRandomWalkPE, AddRings

__all__ = [
    "AddCoordinates",
    "AddDirections",
    "AddRandomWalkPE",
    "AddRings",
    "CheckDirections",
    "RandomBasis",
    "RandomDistortion",
    "RandomReflection",
    "RandomRotation",
]
