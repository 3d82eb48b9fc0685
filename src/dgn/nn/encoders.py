"""Inputs of a network: categories become features."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dgn.nn.edge_table import EdgeTable
from dgn.nn.fused.embedding import embed_sum

ATOM_SIZES = (119, 4, 12, 12, 10, 6, 6, 2, 2)  # the nine columns of OGB's atoms, as the published networks count them
BOND_SIZES = (5, 6, 2)  # the three columns of OGB's bonds

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
        return embed_sum(rows, self.weight)

    def has_few_rows(self, edges: int) -> bool:
        """Whether all combinations of categories are not many more than the edges that look them up."""
        return math.prod(self.sizes) <= max(MOST_ROWS, edges)

    def as_table(self, categories: Tensor) -> EdgeTable:
        """All combinations of categories as a table, with the row of each edge."""
        columns = self._columns(categories).unbind(1)
        tables = torch.split(self.weight, list(self.sizes))
        table, row = tables[0], columns[0]
        for more, column in zip(tables[1:], columns[1:], strict=True):
            table = (table[:, None] + more[None]).flatten(0, 1)
            row = row * len(more) + column
        return EdgeTable(table, row)

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
