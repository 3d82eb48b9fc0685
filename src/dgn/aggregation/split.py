"""A plan in two: along directions that are given, and along directions that a network makes itself."""

from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

import torch

from dgn.aggregation.names import Directional
from dgn.aggregation.plan import Plan, Weights


class Split(NamedTuple):
    """Two plans that compute the weights of one: ``given`` and ``learned`` have the outputs of both, but weights apart.

    ``order`` says which column, of those of both side by side, is each column of the whole.
    """

    given: Plan
    learned: Plan
    order: tuple[int, ...]

    def join(self, given: Weights, learned: Weights) -> Weights:
        """The weights of the whole plan from those of its two parts."""
        pairs = ((known.to(new.dtype), new) for known, new in zip(given, learned, strict=True))
        columns = ([*known.unbind(1), *new.unbind(1)] for known, new in pairs)
        return Weights(*(torch.stack([each[k] for k in self.order], dim=1) for each in columns))


def split_plan(plan: Plan, learned: int) -> Split:
    """The last ``learned`` directions of a plan apart from the others, counted from 1 again.

    >>> from dgn.aggregation import make_plan
    >>> split = split_plan(make_plan(["mean", "dx2", "dx1", "av2"]), 1)
    >>> [weight.kind for weight in split.given.weights], [weight.kind for weight in split.learned.weights], split.order
    (['dx'], ['dx', 'av'], (1, 0, 2))
    """
    first = plan.num_directions - learned
    _check(plan, learned, first)
    starts = dict(zip(plan.weights, accumulate((w.columns for w in plan.weights), initial=0), strict=False))
    known = [weight for weight in plan.weights if weight.direction <= first]
    new = [weight for weight in plan.weights if weight.direction > first]
    place = [column for w in (*known, *new) for column in range(starts[w], starts[w] + w.columns)]
    order = tuple(place.index(column) for column in range(plan.num_columns))
    counted = [replace(weight, direction=weight.direction - first) for weight in new]
    return Split(_only(plan, known), _only(plan, counted), order)


def _only(plan: Plan, weights: list[Directional]) -> Plan:
    return replace(plan, weights=tuple(weights), num_directions=max((w.num_directions for w in weights), default=0))


def _check(plan: Plan, learned: int, first: int) -> None:
    """Every learned direction is one that some aggregator names, and by itself."""
    if learned > 0 and any(weight.num_directions > first for weight in plan.weights if weight.group is not None):
        raise ValueError(
            f"learned_directions: expected groups of the {max(first, 0)} given directions alone, got {learned} for "
            f"{', '.join(plan.names)}; learned directions have no eigenvalues, so say how many form the group at most, "
            "as in dx1-group2"
        )
    if learned > 0 and any(weight.plus and abs(weight.plus) > first for weight in plan.weights):
        raise ValueError(
            f"learned_directions: expected sums of the {max(first, 0)} given directions alone, got {learned} for "
            f"{', '.join(plan.names)}; a learned direction can be any sum already, so name it alone"
        )
    named = {weight.direction for weight in plan.weights}
    if not (0 <= learned <= plan.num_directions and named.issuperset(range(first + 1, plan.num_directions + 1))):
        raise ValueError(
            f"learned_directions: expected the number of last directions, each named by an aggregator, got {learned} "
            f"for {', '.join(plan.names)}; with ['mean', 'dx1', 'dx2'] and 1, dx2 is along a learned direction"
        )
