"""Few kinds of edges: the combinations of categories and counts that occur."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_EDGE_TYPES = 64  # up to which a layer is one function on a GPU (:mod:`dgn.nn.fused.select`)
MOST_COUNT = 7  # larger counts are taken for this one


@dataclass(frozen=True, eq=False)
class EdgeTypes:
    """Combinations of categories and counts, numbered, the most frequent first.

    Edges that are alike share one row of a table, from which a network makes their features: a thousand times fewer
    rows than edges. Types are found once, on the training graphs; an edge of another kind is then taken for the nearest
    one.

    Shapes:
        ``attributes`` [R, C + S] int64: the categories, of which there are ``len(sizes)``, then the counts.

    >>> seen = torch.tensor([[0, 1], [0, 1], [1, 0]])  # a bond's type, and its rings
    >>> kinds = EdgeTypes.find(seen, sizes=(3,))
    >>> kinds.attributes.tolist(), kinds.number(torch.tensor([[1, 0], [0, 4], [2, 1]])).tolist()
    ([[0, 1], [1, 0]], [1, 0, 0])
    """

    attributes: Tensor
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.attributes)

    @classmethod
    def find(cls, attributes: Tensor, sizes: Sequence[int], most: int = MOST_EDGE_TYPES) -> "EdgeTypes":
        """The kinds among edges with ``attributes`` [E, C + S], at most the ``most`` frequent ones.

        ``sizes`` are the numbers of categories of the first columns, the others are counts. Among equally frequent
        ones the order is that of their attributes. Without edges there is one kind of zeros.
        """
        attributes = _clip(attributes, len(sizes))
        found, times = torch.unique(_keys(attributes, sizes), return_counts=True)
        if not len(found):
            return cls(attributes.new_zeros(1, attributes.size(1)), tuple(sizes))
        kept = found[times.argsort(descending=True, stable=True)[:most]]
        return cls(_attributes(kept, sizes, attributes.size(1) - len(sizes)), tuple(sizes))

    def number(self, attributes: Tensor) -> Tensor:
        """The kind of each edge, or the nearest one: ``[E, C + S] -> [E]``.

        Nearest are those with the most categories in common, then those whose counts differ least in sum, then the
        most frequent.
        """
        if attributes.dim() != 2 or attributes.size(1) != self.attributes.size(1):
            raise ValueError(
                f"attributes: expected {len(self.sizes)} categories and {self.attributes.size(1) - len(self.sizes)} "
                f"counts of each edge, got shape {list(attributes.shape)}; add rings of the sizes that were trained on"
            )
        counts = self.attributes.size(1) - len(self.sizes)
        found, edge = torch.unique(_keys(_clip(attributes, len(self.sizes)), self.sizes), return_inverse=True)
        mine, theirs = self.attributes.to(edge.device), _attributes(found, self.sizes, counts)
        differs = (theirs[:, None] - mine[None]).abs()
        c = len(self.sizes)
        farthest = MOST_COUNT * counts + 1
        distance = farthest * (differs[:, :, :c] > 0).sum(dim=2) + differs[:, :, c:].sum(dim=2)
        nearest = torch.sort(distance, dim=1, stable=True).indices[:, 0]
        return nearest[edge]

    def features(self) -> Tensor:
        """Types as numbers: 1 for each category that a kind has, 0 for the others, and its counts.

        Shapes:
            returns [R, sum(sizes) + S] float32.
        """
        c = len(self.sizes)
        columns, device = self.attributes[:, :c, None].unbind(1), self.attributes.device
        one = [column == torch.arange(size, device=device) for column, size in zip(columns, self.sizes, strict=True)]
        return torch.cat([*one, self.attributes[:, c:]], dim=1).float()

    @classmethod
    def of_features(cls, features: Tensor, sizes: Sequence[int]) -> "EdgeTypes":
        """The reverse of :meth:`features`."""
        *blocks, counts = torch.split(features, [*sizes, features.size(1) - sum(sizes)], dim=1)
        columns = [block.argmax(dim=1, keepdim=True) for block in blocks]
        return cls(torch.cat([*columns, counts.long()], dim=1), tuple(sizes))


def _clip(attributes: Tensor, columns: int) -> Tensor:
    """Counts up to the largest that is told apart."""
    attributes = attributes.long()
    return torch.cat([attributes[:, :columns], attributes[:, columns:].clamp(max=MOST_COUNT)], dim=1)


def _keys(attributes: Tensor, sizes: Sequence[int]) -> Tensor:
    """One number for each combination: [E, C + S] -> [E]."""
    key = attributes.new_zeros(len(attributes))
    for column, base in zip(attributes.unbind(1), _bases(sizes, attributes.size(1) - len(sizes)), strict=True):
        if len(column) and not 0 <= int(column.min()) <= int(column.max()) < base:
            raise ValueError(
                f"attributes: expected categories below {base} and counts from 0, got {int(column.min())} to "
                f"{int(column.max())}; these are not the features that the kinds were made for"
            )
        key = key * base + column
    return key


def _attributes(keys: Tensor, sizes: Sequence[int], counts: int) -> Tensor:
    """The reverse of :func:`_keys`."""
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
            "leave out some of the sizes of rings"
        )
    return bases
