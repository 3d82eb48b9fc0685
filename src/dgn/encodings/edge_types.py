"""Edge types: the distinct combinations of edge categories and ring counts."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_EDGE_TYPES = 64  # up to which a layer is one function on a GPU (:mod:`dgn.nn.fused.select`)
MOST_COUNT = 7  # larger counts are clipped to this one


@dataclass(frozen=True, eq=False)
class EdgeTypes:
    """Combinations of categories and counts, the most frequent first.

    Edges of one type share one row of an embedding table: a thousand times fewer rows than edges. Types are determined
    once, on the training graphs; any other edge is assigned the nearest type.

    Shapes:
        ``attributes`` [R, C + S] int64: the categories, of which there are ``len(sizes)``, then the counts.

    >>> seen = torch.tensor([[0, 1], [0, 1], [1, 0]])  # bond type and ring count
    >>> edge_types = EdgeTypes.find(seen, sizes=(3,))
    >>> edge_types.attributes.tolist(), edge_types.assign(torch.tensor([[1, 0], [0, 4], [2, 1]])).tolist()
    ([[0, 1], [1, 0]], [1, 0, 0])
    """

    attributes: Tensor
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.attributes)

    @classmethod
    def find(cls, attributes: Tensor, sizes: Sequence[int], most: int = MOST_EDGE_TYPES) -> "EdgeTypes":
        """The types of edges with ``attributes`` [E, C + S], at most the ``most`` frequent ones.

        ``sizes`` are the numbers of categories of the first columns, the others are counts. Equally frequent types are
        sorted by their attributes. Without edges there is one type of zeros.
        """
        attributes = _clip(attributes, len(sizes))
        keys, frequency = torch.unique(_keys(attributes, sizes), return_counts=True)
        if not len(keys):
            return cls(attributes.new_zeros(1, attributes.size(1)), tuple(sizes))
        frequent = keys[frequency.argsort(descending=True, stable=True)[:most]]
        return cls(_attributes(frequent, sizes, attributes.size(1) - len(sizes)), tuple(sizes))

    def assign(self, attributes: Tensor) -> Tensor:
        """The type of each edge, or the nearest one: ``[E, C + S] -> [E]``.

        The nearest type has the most categories in common, then the smallest sum of differences of counts, then the
        highest frequency.
        """
        if attributes.dim() != 2 or attributes.size(1) != self.attributes.size(1):
            raise ValueError(
                f"attributes: expected {len(self.sizes)} categories and {self.attributes.size(1) - len(self.sizes)} "
                f"counts of each edge, got shape {list(attributes.shape)}; add rings of the training sizes"
            )
        counts = self.attributes.size(1) - len(self.sizes)
        keys, edge = torch.unique(_keys(_clip(attributes, len(self.sizes)), self.sizes), return_inverse=True)
        types, distinct = self.attributes.to(edge.device), _attributes(keys, self.sizes, counts)
        difference = (distinct[:, None] - types[None]).abs()
        c = len(self.sizes)
        farthest = MOST_COUNT * counts + 1
        distance = farthest * (difference[:, :, :c] > 0).sum(dim=2) + difference[:, :, c:].sum(dim=2)
        nearest = torch.sort(distance, dim=1, stable=True).indices[:, 0]
        return nearest[edge]

    def features(self) -> Tensor:
        """The one-hot categories of each type, followed by its counts.

        Shapes:
            returns [R, sum(sizes) + S] float32.
        """
        c = len(self.sizes)
        columns, device = self.attributes[:, :c, None].unbind(1), self.attributes.device
        one_hot = [
            column == torch.arange(size, device=device) for column, size in zip(columns, self.sizes, strict=True)
        ]
        return torch.cat([*one_hot, self.attributes[:, c:]], dim=1).float()

    @classmethod
    def of_features(cls, features: Tensor, sizes: Sequence[int]) -> "EdgeTypes":
        """The inverse of :meth:`features`."""
        *blocks, counts = torch.split(features, [*sizes, features.size(1) - sum(sizes)], dim=1)
        columns = [block.argmax(dim=1, keepdim=True) for block in blocks]
        return cls(torch.cat([*columns, counts.long()], dim=1), tuple(sizes))


def _clip(attributes: Tensor, columns: int) -> Tensor:
    """Attributes with counts clipped at ``MOST_COUNT``."""
    attributes = attributes.long()
    return torch.cat([attributes[:, :columns], attributes[:, columns:].clamp(max=MOST_COUNT)], dim=1)


def _keys(attributes: Tensor, sizes: Sequence[int]) -> Tensor:
    """One integer for each combination: [E, C + S] -> [E]."""
    key = attributes.new_zeros(len(attributes))
    for column, base in zip(attributes.unbind(1), _bases(sizes, attributes.size(1) - len(sizes)), strict=True):
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < base:
            raise ValueError(
                f"attributes: expected categories below {base} and counts from 0, got {int(column.min())} to "
                f"{int(column.max())}; these are not the features of the training graphs"
            )
        key = key * base + column
    return key


def _attributes(keys: Tensor, sizes: Sequence[int], counts: int) -> Tensor:
    """The inverse of :func:`_keys`."""
    columns = []
    for base in reversed(_bases(sizes, counts)):
        columns.append(keys % base)
        keys = keys // base
    return torch.stack(columns[::-1], dim=1)


def _bases(sizes: Sequence[int], counts: int) -> list[int]:
    bases = [*sizes, *[MOST_COUNT + 1] * counts]
    total = 1
    for base in bases:
        total *= base
    if total >= 2**63:
        raise ValueError(
            f"attributes: expected fewer than 2^63 combinations, got categories {list(sizes)} and {counts} counts; "
            "leave out some ring sizes"
        )
    return bases
