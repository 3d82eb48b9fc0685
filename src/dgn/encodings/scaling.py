"""What a network must know of the structural numbers of its graphs."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from dgn.encodings.edge_types import Kinds

LEAST_DEVIATION = 0.05  # numbers that vary less are not blown up, unless all vary less
ROUNDING = 1e-3  # nor is what hardly varies at all


@dataclass(frozen=True, eq=False)
class Structure:
    r"""Which structural numbers nodes and edges have, and how they are brought to one scale.

    Nodes have ``random_walk`` return probabilities, then the counts of ``rings`` of each size, then the logarithms of
    1 + the counts of ``cliques`` (:func:`damped`). A network reads :math:`s_c v_{ic} + o_c`: return probabilities and
    cliques are centred and divided by their deviation over the training nodes, or by 0.05 if that is more; where all
    vary less, as in dense graphs, by the largest deviation. Counts of rings stay as they are. Edges are of few
    ``kinds``; ``None`` where they have other features.

    Shapes:
        ``scale`` and ``offset`` [random_walk + len(rings) + len(cliques)].

    >>> found = Structure.find(torch.tensor([[0.5, 0.0], [0.7, 2.0]]), random_walk=1, rings=(6,))
    >>> (torch.tensor([[0.7, 2.0]]) * found.scale + found.offset).tolist()
    [[1.0, 2.0]]
    """

    random_walk: int
    rings: tuple[int, ...]
    scale: Tensor
    offset: Tensor
    kinds: Kinds | None = None
    cliques: tuple[int, ...] = ()

    @classmethod
    def find(
        cls,
        values: Tensor,
        random_walk: int,
        rings: Sequence[int] = (),
        kinds: Kinds | None = None,
        cliques: Sequence[int] = (),
    ) -> "Structure":
        """From the numbers of the training nodes, [N, random_walk + len(rings) + len(cliques)]."""
        scale = values.new_ones(values.size(1), dtype=torch.float64)
        offset = torch.zeros_like(scale)
        scaled = [*range(random_walk), *range(random_walk + len(rings), values.size(1))]
        if scaled and len(values):
            deviation, mean = torch.std_mean(values[:, scaled].double(), dim=0, correction=0)
            least = deviation.max().clamp(ROUNDING, LEAST_DEVIATION)
            scale[scaled] = 1 / deviation.maximum(least)
            offset[scaled] = -mean * scale[scaled]
        return cls(random_walk, tuple(rings), scale.float(), offset.float(), kinds, tuple(cliques))

    @classmethod
    def blank(
        cls, random_walk: int, rings: Sequence[int], edge_sizes: Sequence[int] | None, cliques: Sequence[int] = ()
    ) -> "Structure":
        """Of graphs that nobody has seen yet: as large as any, without scale and with one kind of edges.

        ``edge_sizes`` are the numbers of categories of edges, or ``None`` where their features are numbers.
        """
        width = random_walk + len(rings) + len(cliques)
        kinds = None
        if rings and edge_sizes is not None:
            kinds = Kinds(torch.zeros(1, len(edge_sizes) + len(rings), dtype=torch.long), tuple(edge_sizes))
        return cls(random_walk, tuple(rings), torch.ones(width), torch.zeros(width), kinds, tuple(cliques))


@dataclass(frozen=True, eq=False)
class Affinities:
    r"""Affinities of ``steps`` steps as the last numbers of edges, and how numbers of edges are brought to one scale.

    A network reads :math:`s_c v_{ec} + o_c`: affinities (:func:`dgn.encodings.edge_affinities`) are centred and divided
    by their deviation over the training edges, or by a thousandth, or a thousandth of their mean, if that is more;
    the numbers before them stay as they are.

    Shapes:
        ``scale`` and ``offset`` [F + steps], with F numbers before.

    >>> found = Affinities.find(torch.tensor([[1.0], [1.5]]), others=1)
    >>> (torch.tensor([[7.0, 1.5]]) * found.scale + found.offset).tolist()
    [[7.0, 1.0]]
    """

    steps: int
    scale: Tensor
    offset: Tensor

    @classmethod
    def find(cls, values: Tensor, others: int = 0) -> "Affinities":
        """From those of the training edges, [E, steps], and how many other numbers edges have."""
        steps, scale = values.size(1), torch.ones(others + values.size(1), dtype=torch.float64)
        offset = torch.zeros_like(scale)
        if len(values):
            deviation, mean = torch.std_mean(values, dim=0, correction=0)
            scale[others:] = 1 / deviation.double().maximum(ROUNDING * mean.abs().clamp(min=1))
            offset[others:] = -mean * scale[others:]
        return cls(steps, scale.float(), offset.float())

    @classmethod
    def blank(cls, steps: int, others: int = 0) -> "Affinities":
        """Of graphs that nobody has seen yet."""
        return cls.find(torch.empty(0, steps), others)


def damped(counts: Tensor) -> Tensor:
    """log(1 + count): nodes of dense graphs are in thousands of cliques.

    >>> damped(torch.tensor([0, 1, 1000])).tolist()
    [0.0, 0.6931471824645996, 6.908754825592041]
    """
    return counts.float().log1p()
