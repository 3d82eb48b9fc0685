"""Walks of several steps, from their first steps: every prefix is walked once (appendix A.7)."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.aggregation.names import WalkFamily
from dgn.operators.radius import Word


class Schedule(NamedTuple):
    """In which order the walks of a family are taken.

    ``levels`` holds, for every further step, pairs of a field k and the indices of those longest walks that go on along
    fields k, k + 1, ..., n. ``order`` are the places of all walks, in the order of their words, among those taken;
    ``identity``: the walk of no steps is one of them.
    """

    levels: tuple[tuple[tuple[int, tuple[int, ...]], ...], ...]
    order: tuple[int, ...]
    identity: bool


def make_schedule(family: WalkFamily) -> Schedule:
    """The schedule of a family.

    >>> make_schedule(WalkFamily(radius=2, fields=1))
    Schedule(levels=(((1, (0, 1)),),), order=(0, 1, 2, 4, 3, 5), identity=False)
    """
    letters = [sign * k for k in range(1, family.fields + 1) for sign in (1, -1)]
    longest: list[Word] = [(letter,) for letter in letters]
    taken: list[Word] = [(), *longest] if family.permuted else [*longest]
    levels = []
    for _ in range(1, family.radius):
        first = [1 if family.permuted else abs(word[-1]) for word in longest]
        level = [(k, tuple(i for i, other in enumerate(first) if other == k)) for k in sorted(set(first))]
        longest = [(*longest[i], letter) for k, words in level for letter in letters[2 * (k - 1) :] for i in words]
        taken += longest
        levels.append(tuple(level))
    return Schedule(tuple(levels), tuple(taken.index(word) for word in family.words), family.permuted)


def continue_walks(
    schedule: Schedule, first: Tensor, start: Tensor | None, step: Callable[[Tensor, int], Tensor]
) -> Tensor:
    """The signals along all walks, ``[N, walks, C]``, in the order of their words.

    ``first`` [N, 2 n, C] are the walks of one step; ``start`` [N, C] is the walk of none, where it is one of them.
    ``step(walked, k)`` takes signals [N, P, C] one step further, forward and backward along fields k, k + 1, ..., n:
    [N, 2 (n - k + 1), P, C].
    """
    longest = first
    taken = [longest] if start is None else [start[:, None], longest]
    for level in schedule.levels:
        parts = [step(longest[:, list(walks)], k).flatten(1, 2) for k, walks in level]
        longest = torch.cat(parts, dim=1)
        taken.append(longest)
    return torch.cat(taken, dim=1)[:, list(schedule.order)]
