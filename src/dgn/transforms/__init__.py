"""PyG transforms: directions, coordinates and directed edges as fields, structural encodings, augmentations."""

from dgn.transforms.augmentations import RandomBasis, RandomDistortion, RandomReflection, RandomRotation
from dgn.transforms.directed import AddDirectedFields
from dgn.transforms.directions import AddCoordinates, AddDirections, CheckDirections
from dgn.transforms.structure import AddRandomWalkPE, AddRings

__all__ = [
    "AddCoordinates",
    "AddDirectedFields",
    "AddDirections",
    "AddRandomWalkPE",
    "AddRings",
    "CheckDirections",
    "RandomBasis",
    "RandomDistortion",
    "RandomReflection",
    "RandomRotation",
]
