"""PyG transforms that augment the field of a graph, for training (section 2.10)."""

import math
from typing import Any

import torch
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from dgn.fields import distort, reflect, rotate


class _FieldTransform(BaseTransform):
    """A random change of ``data.field``, drawn from PyTorch's global generator or from ``generator``.

    A loader reseeds the global generator in each worker and epoch. A generator that is passed is copied to every worker
    at the start of each epoch in its initial state: use it with ``num_workers=0``, or with one worker and
    ``persistent_workers=True``.
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        self.generator = generator

    def uniform(self) -> float:
        device = None if self.generator is None else self.generator.device
        return float(torch.rand((), generator=self.generator, device=device))

    def field_of(self, data: Any) -> torch.Tensor:
        if getattr(data, "field", None) is None:
            raise ValueError(
                f"data: expected a field for {type(self).__name__}, got none; apply AddDirections or AddCoordinates "
                "before it"
            )
        return data.field  # type: ignore[no-any-return]


class RandomReflection(_FieldTransform):
    """Reflect each direction with probability 1/2 (definition 4)."""

    def forward(self, data: Data) -> Data:
        field = self.field_of(data)
        draws = torch.tensor([self.uniform() < 0.5 for _ in range(field.size(1))], device=field.device)
        data.field = torch.where(draws, reflect(field), field)
        return data


class RandomRotation(_FieldTransform):
    """Rotate two directions by one random angle in (-degrees, degrees) in their common plane (definition 5).

    Rows are normalised to unit length. Nodes at which the two directions are collinear are left unrotated.
    """

    def __init__(
        self, degrees: float, generator: torch.Generator | None = None, directions: tuple[int, int] = (1, 2)
    ) -> None:
        super().__init__(generator)
        self.degrees, self.directions = degrees, directions

    def forward(self, data: Data) -> Data:
        field = self.field_of(data)
        first, second = (k - 1 for k in self.directions)
        if first == second or min(first, second) < 0 or max(first, second) >= field.size(1):
            raise ValueError(
                f"directions: expected two different columns of the field, 1 to {field.size(1)}, got "
                f"{self.directions}; pass a larger k to AddDirections if there are too few"
            )
        angle = math.radians(self.degrees) * (2 * self.uniform() - 1)
        rotated = rotate(field[:, first], field[:, second], angle, data, collinear="keep")
        field = field.clone()
        field[:, first], field[:, second] = rotated
        data.field = field
        return data


class RandomDistortion(_FieldTransform):
    """Add antisymmetric noise of up to ``strength`` times the mean size of each direction (definition 6)."""

    def __init__(self, strength: float, generator: torch.Generator | None = None) -> None:
        super().__init__(generator)
        self.strength = strength

    def forward(self, data: Data) -> Data:
        batch = getattr(data, "batch", None)
        data.field = distort(self.field_of(data), data, self.strength, generator=self.generator, batch=batch)
        return data
