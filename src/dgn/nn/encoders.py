"""Inputs of a network: categories, structural encodings, edge types and features of graphs."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dgn.encodings import EdgeTypes
from dgn.graph.columns import as_columns
from dgn.nn.dropout import Dropout
from dgn.nn.edge_features import EdgeTable
from dgn.nn.linear import Linear

ATOM_SIZES = (119, 4, 12, 12, 10, 6, 6, 2, 2)  # the nine columns of OGB's atoms, as the published networks count them
BOND_SIZES = (5, 6, 2)  # the three columns of OGB's bonds

SMALL_TABLE = 512  # rows of a table whose gradient on a GPU is a matrix product: PyTorch would sort them
CLIP = 5.0  # standard deviations
MOST_ROWS = 1024  # of a table that is made for few edges


class CategoryEncoder(nn.Module):
    """The sum of one embedding per column of categories.

    One column starts from normal numbers like ``nn.Embedding``, several from Xavier's like OGB's encoders.

    Shapes:
        [N] or [N, len(sizes)] integers to [N, channels].

    >>> CategoryEncoder((28,), 8)(torch.tensor([0, 27])).shape
    torch.Size([2, 8])
    """

    offset: Tensor

    def __init__(self, sizes: Sequence[int], channels: int) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.weight = nn.Parameter(torch.empty(sum(sizes), channels))
        self.register_buffer("offset", torch.tensor([0, *sizes[:-1]]).cumsum(0), persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        for table in torch.split(self.weight, list(self.sizes)):
            (nn.init.normal_ if len(self.sizes) == 1 else nn.init.xavier_uniform_)(table)

    def forward(self, categories: Tensor) -> Tensor:
        rows = self._columns(categories) + self.offset
        small = rows.is_cuda and len(self.weight) <= SMALL_TABLE and not torch.compiler.is_compiling()
        if not small:
            return nn.functional.embedding(rows, self.weight).sum(dim=1)
        summed: Tensor = _SumRows.apply(rows, self.weight)  # type: ignore[no-untyped-call]
        return summed

    def has_few_rows(self, edges: int) -> bool:
        """Whether all combinations of categories are not many more than the edges that look them up."""
        return math.prod(self.sizes) <= max(MOST_ROWS, edges)

    def as_table(self, categories: Tensor, sorted_by_target: bool = False) -> EdgeTable:
        """All combinations of categories as a table, with the row of each edge, which may be sorted already."""
        columns = self._columns(categories).unbind(1)
        tables = torch.split(self.weight, list(self.sizes))
        table, row = tables[0], columns[0]
        for more, column in zip(tables[1:], columns[1:], strict=True):
            table = (table[:, None] + more[None]).flatten(0, 1)
            row = row * len(more) + column
        return EdgeTable(table, row, sorted_by_target)

    def _columns(self, categories: Tensor) -> Tensor:
        if categories.is_floating_point() or categories.numel() != categories.size(0) * len(self.sizes):
            raise ValueError(
                f"categories: expected integers [N, {len(self.sizes)}], got {categories.dtype} of shape "
                f"{list(categories.shape)}; encode numbers with nn.Linear instead"
            )
        columns = categories.view(categories.size(0), len(self.sizes)).long()
        # Looked at on the CPU only: on a GPU it would wait for all work before.
        if columns.device.type == "cpu" and not torch.compiler.is_compiling():
            bad = ((columns < 0) | (columns >= torch.tensor(self.sizes))).nonzero()
            if len(bad):
                row, column = bad[0].tolist()
                raise ValueError(
                    f"categories: expected numbers from 0 to {self.sizes[column] - 1} in column {column}, got "
                    f"{int(columns[row, column])} in row {row}; give the encoder larger sizes"
                )
        return columns

    def extra_repr(self) -> str:
        return f"{self.sizes}, {self.weight.size(1)}"


class _SumRows(torch.autograd.Function):
    """The sum of some rows of a table for each node, ``[N, columns], [R, C] -> [N, C]``; the same bits on every run."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(rows)
        ctx.num_rows = table.size(0)
        return table[rows[:, 0]] if rows.size(1) == 1 else nn.functional.embedding(rows, table).sum(dim=1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Tensor]:
        (rows,) = ctx.saved_tensors
        # Columns have rows of their own in the table: no row of it is named twice.
        named = grad.new_zeros(rows.size(0), ctx.num_rows).scatter_(1, rows, 1.0)
        return None, named.T @ grad


class StructuralEncoder(nn.Module):
    r"""A linear map of structural encodings, brought to one scale first: :math:`W (s \odot v_i + o)`.

    There is no bias: the embedding that it is added to has one for every type of node. ``scale`` s and ``offset`` o are
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


class GraphEncoder(nn.Module):
    r"""Features of whole graphs for the head: :math:`\mathrm{ReLU}(W \, \mathrm{clip}(s \odot v_g + o) + b)`.

    ``scale`` s and ``offset`` o standardize over the training graphs (:class:`dgn.encodings.Standardization`) and are
    not trained. Standardized features are clipped to :math:`\pm 5`: a graph unlike all others does not leave the range
    of training. A missing feature, NaN, is the mean of training.

    Shapes:
        ``scale`` and ``offset`` [F]; [G, F] to [G, channels].

    >>> GraphEncoder(torch.ones(3), torch.zeros(3), 8)(torch.ones(5, 3)).shape
    torch.Size([5, 8])
    """

    scale: Tensor
    offset: Tensor

    def __init__(self, scale: Tensor, offset: Tensor, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.register_buffer("scale", scale.clone())
        self.register_buffer("offset", offset.clone())
        self.linear, self.dropout = Linear(len(scale), channels), Dropout(dropout)

    def reset_parameters(self) -> None:
        self.linear.reset_parameters()

    def forward(self, values: Tensor | None) -> Tensor:
        if values is None or values.dim() != 2 or values.size(1) != len(self.scale):
            came = "none" if values is None else f"shape {list(values.shape)}"
            raise ValueError(
                f"graph_attr: expected {len(self.scale)} numbers of each graph, got {came}; pass as many as the "
                "network was made for"
            )
        scaled = torch.addcmul(self.offset, values.to(self.scale.dtype), self.scale)
        clipped = torch.where(scaled.isnan(), 0.0, scaled).clamp(-CLIP, CLIP)
        encoded: Tensor = self.dropout(self.linear(clipped).relu())
        return encoded


class EdgeTypeEncoder(nn.Module):
    """Features of edges of few types: one row of a table for each, the sum of its categories' and its rings' vectors.

    A ring that an edge is part of adds the vector of its size; so do two of them, twice. Types are identified by their
    attributes, so that they share what they have in common, and their number costs no parameters.

    Shapes:
        [E] indices of types to [E, channels].

    >>> edge_types = EdgeTypes.find(torch.tensor([[0, 1], [1, 0]]), sizes=(2,))
    >>> EdgeTypeEncoder(edge_types, 8)(torch.tensor([1, 0, 0])).shape
    torch.Size([3, 8])
    """

    features: Tensor

    def __init__(self, edge_types: EdgeTypes, channels: int) -> None:
        super().__init__()
        self.sizes = edge_types.sizes
        self.register_buffer("features", edge_types.features())
        self.weight = nn.Parameter(torch.empty(self.features.size(1), channels))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As a ``CategoryEncoder`` starts, with rings as one column more."""
        blocks = [*self.sizes, len(self.weight) - sum(self.sizes)]
        for block in torch.split(self.weight, blocks):
            (nn.init.normal_ if len(self.sizes) <= 1 else nn.init.xavier_uniform_)(block)

    @property
    def edge_types(self) -> EdgeTypes:
        """The edge types that the table has a row for; they are kept with the weights."""
        return EdgeTypes.of_features(self.features, self.sizes)

    def as_table(self, edge_type: Tensor, sorted_by_target: bool = False) -> EdgeTable:
        """One row for each type, with the row of each edge, which may be sorted already."""
        return EdgeTable(self.features @ self.weight, edge_type.flatten().long(), sorted_by_target)

    def forward(self, edge_type: Tensor) -> Tensor:
        table, row, *_ = self.as_table(edge_type)
        return table.index_select(0, row)

    def extra_repr(self) -> str:
        return f"{len(self.features)} edge types, {self.sizes} and {len(self.weight) - sum(self.sizes)} rings"


def read_structural_inputs(data: Any, edge_encoder: nn.Module | None) -> tuple[Tensor | None, Tensor | None]:
    """The structural encodings of nodes and the features of edges in a PyG ``Data``.

    ``structure`` and edge types as ``edge_attr`` are taken as they are. Otherwise encodings of nodes are
    ``random_walk`` and ``rings``, in this order, and ``edge_attr`` with ``edge_rings`` becomes the nearest type.
    """
    structure, edge_attr = getattr(data, "structure", None), getattr(data, "edge_attr", None)
    parts = [getattr(data, name, None) for name in ("random_walk", "rings")]
    columns = [part.float() for part in parts if part is not None]
    if structure is None and columns:
        structure = torch.cat(columns, dim=1)
    rings = getattr(data, "edge_rings", None)
    if isinstance(edge_encoder, EdgeTypeEncoder) and rings is not None:
        columns = [] if edge_attr is None else [as_columns(edge_attr).long()]
        edge_attr = edge_encoder.edge_types.assign(torch.cat([*columns, rings.long()], dim=1))
    return structure, edge_attr
