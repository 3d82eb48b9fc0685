"""PyG transforms: directions, coordinates as directions, and augmentations of the field."""

from dgn.transforms.augmentations import RandomDistortion, RandomReflection, RandomRotation
from dgn.transforms.directions import AddCoordinates, AddDirections

__all__ = ["AddCoordinates", "AddDirections", "RandomDistortion", "RandomReflection", "RandomRotation"]
