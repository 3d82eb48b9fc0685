"""Kernels of radius R: walks along several fields (appendix A.7)."""

from dataclasses import dataclass
from itertools import product
from typing import Any

import torch
from torch import Tensor

from dgn.fields import normalize
from dgn.fields.calculus import stack_columns
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_columns, check_rows
from dgn.operators.operator import Operator

Word = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Walks:
    """A family of walks, which maps a signal to its values along all of them.

    A walk is a word of steps: ``+2`` is a step forward along field 2, ``-1`` one backward along field 1. Steps are
    taken from left to right, so ``+1+1-2`` is the matrix product :math:`B^-(F_2) B^+(F_1) B^+(F_1)`.
    """

    steps: Operator  # column 2 (k - 1) is a step forward along field k, the next one backward
    words: tuple[Word, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """One name per walk, such as ``"+1+1-2"``; the walk without steps is ``"0"``."""
        return tuple("".join(f"{step:+d}" for step in word) or "0" for word in self.words)

    def __len__(self) -> int:
        return len(self.words)

    def __call__(self, x: Tensor) -> Tensor:
        """The signal along every walk: ``[N, C] -> [N, walks, C]``, or ``[N] -> [N, walks]``."""
        check_rows("x", x, self.steps.graph.num_nodes, "node")
        walked: dict[Word, Tensor] = {(): x}
        for word in self.words:
            if word:
                walked[word] = self._step(word[-1], walked[word[:-1]])
        return stack_columns([walked[word] for word in self.words], x)

    def _step(self, step: int, x: Tensor) -> Tensor:
        column = 2 * (abs(step) - 1) + (step < 0)
        span = slice(column, column + 1)
        return Operator(self.steps.graph, self.steps.edge_weight[:, span], self.steps.self_weight[:, span])(x)[:, 0]


def walks(
    fields: Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    radius: int = 2,
    permutations: bool = False,
    identity: bool | None = None,
    p: int | None = 1,
) -> Walks:
    r"""All walks of at most R steps along n fields: the terms of the radius-R kernel (appendix A.7).

    One step is :math:`B_{fb}^\pm(F)_{i,:} = |F^\pm_{i,:}| / \|F_{i,:}\|_{L^p}` with p = 1 or 2, or
    :math:`|F^\pm|` without normalisation for ``p=None`` (on a grid with fields of :math:`\pm 1`, a shift by one node).

    With ``permutations`` every order of steps is a separate walk, :math:`\sum_{r=0}^R (2n)^r` in number. Without,
    steps along field 1 come first, then those along field 2, and so on:
    :math:`\sum_{r=0}^R \sum_{l=1}^{\min(n,r)} 2^r \binom{n}{l} \binom{r-1}{l-1}` walks. The first of these two counts
    of the paper includes the walk of no steps and the second does not; ``identity`` overrides
    this default.

    Laws: every walk is linear; on a lattice the walks span all convolution kernels of radius R (theorem 2.4).

    Shapes:
        ``fields`` [E, n]; the family maps [N, C] to [N, walks, C].

    >>> edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> family = walks(torch.tensor([[-1.0], [1.0], [-1.0], [1.0]]), edges, 3, radius=2, p=None)
    >>> family.names
    ('+1', '-1', '+1+1', '+1-1', '-1+1', '-1-1')
    >>> family(torch.tensor([1.0, 10.0, 100.0]))[0].tolist()
    [10.0, 0.0, 100.0, 0.0, 1.0, 0.0]
    """
    if radius < 0:
        raise ValueError(f"radius: expected 0 or more steps, got {radius}; radius=1 is one step along each field")
    graph = as_graph(edge_index, num_nodes)
    check_rows("fields", fields, graph.num_edges, "edge")
    check_columns("fields", fields)
    fields = fields[:, None] if fields.dim() == 1 else fields
    words = walk_words(fields.size(1), radius, permutations, permutations if identity is None else identity)
    return Walks(Operator(graph, *step_weights(fields if p is None else normalize(fields, graph, p=p), graph)), words)


def step_weights(fields: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """Edge and self weights of a step forward and a step backward along each of n fields. [E, 2 n] and [N, 2 n]"""
    both = torch.stack([fields.clamp(min=0), -fields.clamp(max=0)], dim=2)
    weight = both.view(graph.num_edges, 2 * fields.size(1))
    return weight, weight.new_zeros(graph.num_nodes, weight.size(1))


def walk_words(n: int, radius: int, permutations: bool, identity: bool) -> tuple[Word, ...]:
    """All words, shorter ones first, so that a prefix always comes before its continuations."""
    letters = [sign * k for k in range(1, n + 1) for sign in (1, -1)]
    words: list[Word] = [()]
    longest = words
    for _ in range(radius):
        longest = [
            (*word, step)
            for word, step in product(longest, letters)
            if permutations or not word or abs(step) >= abs(word[-1])
        ]
        words = words + longest
    return tuple(words if identity else words[1:])
