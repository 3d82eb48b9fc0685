"""PyG transforms that augment the field of a graph, for training (section 2.10)."""

import math
from typing import Any, Literal

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.transforms import BaseTransform

from dgn.fields import distort, distort_potential, gradient, rotate
from dgn.graph.checks import check_directions, check_option
from dgn.spectral.degeneracy import random_rotations


class _FieldTransform(BaseTransform):
    """A random change of ``data.edge_field``, drawn from PyTorch's global generator or from ``generator``.

    ``data.node_potential`` changes with it; where it cannot follow, it is removed: no network reads the old one.

    A loader reseeds the global generator in each worker and epoch. A generator that is passed is copied to every worker
    at the start of each epoch in its initial state: use it with ``num_workers=0``, or with one worker and
    ``persistent_workers=True``.
    """

    def __init__(self, generator: torch.Generator | None = None) -> None:
        self.generator = generator

    def uniform(self, *shape: int) -> Tensor:
        device = None if self.generator is None else self.generator.device
        return torch.rand(shape, generator=self.generator, device=device)

    def field_of(self, data: Any) -> Tensor:
        if getattr(data, "edge_field", None) is None:
            raise ValueError(
                f"data: expected a field for {type(self).__name__}, got none; apply AddDirections or AddCoordinates "
                "before it"
            )
        if data.edge_index is None:
            raise ValueError(
                f"data: expected edge_index for {type(self).__name__}, got {', '.join(data.keys())}; apply it before "
                "ToSparseTensor"
            )
        if getattr(data, "node_potential", None) is not None:
            check_directions(data.edge_field, data.node_potential, data.edge_index)
        return data.edge_field  # type: ignore[no-any-return]


class RandomReflection(_FieldTransform):
    """Reflect each direction with probability 1/2 (definition 4).

    Eigenvectors have a sign for each connected component, coordinates one for each graph. A potential with other
    columns than the field is removed.
    """

    def forward(self, data: Data) -> Data:
        field = self.field_of(data)
        owner = _owner(data)
        draws = self.uniform(int(owner.max()) + 1 if len(owner) else 0, field.size(1)).to(field.device)
        sign = torch.where(draws < 0.5, -1.0, 1.0).to(field.dtype)[owner]
        data.edge_field = field * sign[data.edge_index[1]]
        if not _has_columns_of(field, data):
            return _without_potential(data)
        data.node_potential = data.node_potential * sign
        return data


def _owner(data: Any) -> Tensor:
    """The number of the connected component of each node, over a batch; of its graph where there are no components."""
    batch, component = getattr(data, "batch", None), getattr(data, "component", None)
    if batch is None:
        batch = torch.zeros(data.num_nodes, dtype=torch.long, device=data.edge_index.device)
    return batch if component is None else torch.unique(torch.stack([batch, component]), dim=1, return_inverse=True)[1]


class RandomBasis(_FieldTransform):
    """Draw a random orthonormal basis of each repeated eigenspace, uniformly (section B.4).

    For single graphs, before they are batched, with ``AddDirections(whole_eigenspaces=True)`` before it: an eigenspace
    is sampled whole, also where it has more vectors than the field has directions. Simple vectors stay as they are.
    """

    def forward(self, data: Data) -> Data:
        field = self.field_of(data)
        if getattr(data, "batch", None) is not None:
            raise ValueError(
                "data: expected one graph for RandomBasis, got a batch; use it as the transform of a dataset"
            )
        if getattr(data, "eigenspaces", None) is None:
            raise ValueError(
                "data: expected eigenspaces for RandomBasis, got none; apply AddDirections(whole_eigenspaces=True) "
                "before it"
            )
        vectors, gaps = data.eigenspaces["vectors"], data.eigenspaces["gaps"]
        if not len(vectors):
            return data
        components = int(data.component.max()) + 1 if data.num_nodes else 0
        if len(vectors) * components != len(gaps) * data.num_nodes:
            raise ValueError(
                f"eigenspaces: expected those of {data.num_nodes} nodes in {components} components, got others; apply "
                "transforms that change nodes before AddDirections"
            )
        whole = vectors.view(data.num_nodes, -1)
        rotation = random_rotations(gaps.view(-1, whole.size(1)), self.generator)[:, :, : field.size(1)]
        potential = torch.einsum("nk,nkl->nl", whole, rotation[data.component])
        data.node_potential = potential.to(field.dtype)
        data.edge_field = gradient(potential, data.edge_index).to(field.dtype)
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
        angle = math.radians(self.degrees) * (2 * float(self.uniform()) - 1)
        rotated = rotate(field[:, first], field[:, second], angle, data, collinear="keep")
        field = field.clone()
        field[:, first], field[:, second] = rotated
        data.edge_field = field
        return _without_potential(data)


class RandomDistortion(_FieldTransform):
    """Add noise of up to ``strength`` times the mean size of each direction.

    ``of="field"`` adds antisymmetric noise on the edges (definition 6), ``"potential"`` noise on the nodes, of which
    the field gets the gradient, without edge weights, as in the paper's figure on augmentation.
    """

    def __init__(
        self,
        strength: float,
        generator: torch.Generator | None = None,
        of: Literal["field", "potential"] = "field",
    ) -> None:
        super().__init__(generator)
        check_option("of", of, ("field", "potential"))
        self.strength, self.of = strength, of

    def forward(self, data: Data) -> Data:
        field, batch = self.field_of(data), getattr(data, "batch", None)
        if self.of == "field":
            data.edge_field = distort(field, data, self.strength, generator=self.generator, batch=batch)
            return _without_potential(data)
        potential = getattr(data, "node_potential", None)
        if potential is None:
            raise ValueError(
                "data: expected a potential for RandomDistortion(of='potential'), got none; apply it before a rotation "
                "or a distortion of the field, and after AddDirections or AddCoordinates"
            )
        if not _has_columns_of(field, data):
            raise ValueError(
                f"node_potential: expected the columns of edge_field {list(field.shape)}, got {list(potential.shape)}; "
                "use RandomDistortion(of='field')"
            )
        data.node_potential = distort_potential(potential, self.strength, generator=self.generator, batch=batch)
        # A gradient is linear; the gradient of the sum would carry the rounding of the potential.
        data.edge_field = field + gradient(data.node_potential - potential, data.edge_index).to(field.dtype)
        return data


def _has_columns_of(field: Tensor, data: Any) -> bool:
    """Whether there is a potential with a column for each direction of the field."""
    potential = getattr(data, "node_potential", None)
    return potential is not None and potential.shape[1:] == field.shape[1:]


def _without_potential(data: Data) -> Data:
    if "node_potential" in data:
        del data.node_potential
    return data
