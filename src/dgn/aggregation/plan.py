"""A plan: aggregator names, parsed once into the codes that kernels run on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.aggregation.names import Directional, parse
from dgn.fields import backward_field, forward_field
from dgn.fields.shaping import hardened
from dgn.graph import Graph
from dgn.operators.weights import derivative_weights, smoothing_weights


class Code(IntEnum):
    """What one output of a kernel is. A directional sum is followed by the column of its weights."""

    SUM = 0
    MEAN = 1
    MAX = 2
    MIN = 3
    VAR = 4
    STD = 5
    SIGNED = 6
    ABSOLUTE = 7


SMALLEST_VARIANCE = 1e-5  # as in PyG: up to it the standard deviation and its gradient are 0


class Weights(NamedTuple):
    """Weights of all directional sums of a plan: ``edge`` [E, W] in the order sorted by target, ``self`` [N, W]."""

    edge: Tensor
    self: Tensor


@dataclass(frozen=True)
class Plan:
    """What to aggregate: one output per name, in order, and the distinct weights that the outputs need.

    ``codes`` and ``columns`` have one entry per output, ``weights`` one per weight column. ``num_directions`` is the
    number of field columns that are needed; ``has_self`` says whether any output weighs the node itself.
    """

    names: tuple[str, ...]
    codes: tuple[int, ...]
    columns: tuple[int, ...]
    weights: tuple[Directional, ...]
    num_directions: int
    has_self: bool

    def __len__(self) -> int:
        return len(self.names)

    def compute_weights(self, field: Tensor | None, graph: Graph) -> Weights:
        """The weights of a field on a graph: computed once, used by every layer.

        Shapes:
            ``field`` [E, K] with K at least ``num_directions``, in the order of ``edge_index``.
        """
        dtype = torch.get_default_dtype() if field is None else field.dtype
        if not self.weights:
            rows = graph.num_edges, graph.num_nodes
            return Weights(*(torch.empty(n, 0, dtype=dtype, device=graph.edge_index.device) for n in rows))
        if field is None or field.dim() != 2 or field.shape[0] != graph.num_edges:
            came = "None" if field is None else f"shape {list(field.shape)}"
            raise ValueError(
                f"field: expected shape [{graph.num_edges}, K], one row per edge, for aggregators "
                f"{', '.join(self.names)}, got {came}; dgn.transforms.AddDirections adds one to a Data, "
                "dgn.gradient(potential, edge_index) makes one"
            )
        if field.size(1) < self.num_directions:
            raise ValueError(
                f"field: expected at least {self.num_directions} columns for aggregators {', '.join(self.names)}, "
                f"got {field.size(1)}; ask AddDirections or dgn.directions for k={self.num_directions}"
            )
        pairs = [_weigh(weight, field[:, weight.direction - 1 : weight.direction], graph) for weight in self.weights]
        edge, node = (torch.cat(parts, dim=1) for parts in zip(*pairs, strict=True))
        return Weights(edge[graph.by_target.order], node)


def make_plan(aggregators: Sequence[str]) -> Plan:
    """The plan for a list of names; the same list gives the same object.

    >>> make_plan(["mean", "dx1", "dx1-signed"]).codes
    (1, 7, 6)
    """
    if isinstance(aggregators, str) or not aggregators or not all(isinstance(name, str) for name in aggregators):
        raise ValueError(
            f"aggregators: expected a list of one or more names, got {aggregators!r}; for example ['mean', 'dx1']"
        )
    return _make_plan(tuple(aggregators))


@cache
def _make_plan(names: tuple[str, ...]) -> Plan:
    parsed = [parse(name) for name in names]
    if len(set(parsed)) < len(parsed):
        raise ValueError(f"aggregators: expected each one once, got {list(names)}; remove the repeated one")
    # The absolute value is taken of the sum: dx1 and dx1-signed share their weights.
    weights = tuple(dict.fromkeys(replace(p, absolute=False) for p in parsed if isinstance(p, Directional)))
    codes, columns = [], []
    for aggregator in parsed:
        if isinstance(aggregator, Directional):
            codes.append(int(Code.ABSOLUTE if aggregator.absolute else Code.SIGNED))
            columns.append(weights.index(replace(aggregator, absolute=False)))
        else:
            codes.append(int(Code[aggregator.upper()]))
            columns.append(0)
    num_directions = max((weight.direction for weight in weights), default=0)
    has_self = any(weight.kind == "dx" for weight in weights)
    return Plan(names, tuple(codes), tuple(columns), weights, num_directions, has_self)


def _weigh(weight: Directional, field: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """Edge and self weights of one directional sum; ``field`` is its column, [E, 1]."""
    if weight.kind in ("fwd", "bwd"):
        field = forward_field(field) if weight.kind == "fwd" else backward_field(field)
    if weight.hardening is not None:
        field = hardened(field, graph, None if math.isinf(weight.hardening) else weight.hardening)
    if weight.kind == "dx":
        return derivative_weights(field, graph, weight.balance, weight.padding)
    return smoothing_weights(field, graph, weight.balance, weight.padding)
