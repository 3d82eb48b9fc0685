"""Structural numbers as inputs of a network."""

from typing import Any

import torch
from torch import Tensor, nn

from dgn.encodings import EdgeTypes
from dgn.graph.columns import as_columns
from dgn.nn.edge_table import EdgeTable
from dgn.nn.linear import Linear


class StructuralEncoder(nn.Module):
    r"""A linear map of structural numbers, brought to one scale first: :math:`W (s \odot v_i + o)`.

    There is no bias: the embedding that it is added to has one for every kind of node. ``scale`` s and ``offset`` o are
    not trained (:class:`dgn.encodings.Structure`).

    Shapes:
        ``scale`` and ``offset`` [F]; [N, F] to [N, channels].

    >>> StructuralEncoder(torch.ones(3), torch.zeros(3), 8)(torch.ones(5, 3)).shape
    torch.Size([5, 8])
    """

    scale: Tensor
    offset: Tensor

    def __init__(self, scale: Tensor, offset: Tensor, channels: int) -> None:
        super().__init__()
        self.register_buffer("scale", scale.clone())
        self.register_buffer("offset", offset.clone())
        self.linear = Linear(len(scale), channels, bias=False)

    def reset_parameters(self) -> None:
        self.linear.reset_parameters()

    def forward(self, values: Tensor | None) -> Tensor:
        if values is None or values.dim() != 2 or values.size(1) != len(self.scale):
            came = "none" if values is None else f"shape {list(values.shape)}"
            raise ValueError(
                f"structure: expected {len(self.scale)} numbers of each node, got {came}; add as many as the network "
                "was made for with dgn.transforms.AddRandomWalkPE(steps) and AddRings(sizes)"
            )
        scaled: Tensor = self.linear(torch.addcmul(self.offset, values.to(self.scale.dtype), self.scale))
        return scaled


class EdgeTypeEncoder(nn.Module):
    """Features of edges of few kinds: one row of a table for each, the sum of its categories' and its rings' vectors.

    A ring that an edge is part of adds the vector of its size; so do two of them, twice. Types are told by their
    attributes, so that they share what they have in common, and their number costs no parameters.

    Shapes:
        [E] numbers of kinds to [E, channels].

    >>> kinds = EdgeTypes.find(torch.tensor([[0, 1], [1, 0]]), sizes=(2,))
    >>> EdgeTypeEncoder(kinds, 8)(torch.tensor([1, 0, 0])).shape
    torch.Size([3, 8])
    """

    features: Tensor

    def __init__(self, kinds: EdgeTypes, channels: int) -> None:
        super().__init__()
        self.sizes = kinds.sizes
        self.register_buffer("features", kinds.features())
        self.weight = nn.Parameter(torch.empty(self.features.size(1), channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As a ``CategoryEncoder`` starts, with rings as one column more."""
        blocks = [*self.sizes, len(self.weight) - sum(self.sizes)]
        for block in torch.split(self.weight, blocks):
            (nn.init.normal_ if len(self.sizes) <= 1 else nn.init.xavier_uniform_)(block)

    @property
    def kinds(self) -> EdgeTypes:
        """The kinds that the table has a row for; they are kept with the weights."""
        return EdgeTypes.of_features(self.features, self.sizes)

    def as_table(self, kind: Tensor) -> EdgeTable:
        """One row for each kind, with the row of each edge."""
        return EdgeTable(self.features @ self.weight, kind.flatten().long())

    def forward(self, kind: Tensor) -> Tensor:
        table, row, *_ = self.as_table(kind)
        return table.index_select(0, row)

    def extra_repr(self) -> str:
        return f"{len(self.features)} kinds, {self.sizes} and {len(self.weight) - sum(self.sizes)} rings"


def read_structural_inputs(data: Any, edge_encoder: nn.Module | None) -> tuple[Tensor | None, Tensor | None]:
    """The structural numbers of nodes and the features of edges in a PyG ``Data``.

    ``structure`` and kinds as ``edge_attr`` are taken as they are. Otherwise numbers of nodes are ``random_walk``
    and ``rings``, in this order, and ``edge_attr`` with ``edge_rings`` becomes the nearest kind.
    """
    structure, edge_attr = getattr(data, "structure", None), getattr(data, "edge_attr", None)
    parts = [getattr(data, name, None) for name in ("random_walk", "rings")]
    given = [part.float() for part in parts if part is not None]
    if structure is None and given:
        structure = torch.cat(given, dim=1)
    rings = getattr(data, "edge_rings", None)
    if isinstance(edge_encoder, EdgeTypeEncoder) and rings is not None:
        columns = [] if edge_attr is None else [as_columns(edge_attr).long()]
        edge_attr = edge_encoder.kinds.assign(torch.cat([*columns, rings.long()], dim=1))
    return structure, edge_attr
