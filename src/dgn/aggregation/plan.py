"""A plan: aggregator names, parsed once into the codes of the kernels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.aggregation.names import Directional, parse
from dgn.fields import backward_field, forward_field
from dgn.fields.calculus import power_norm
from dgn.fields.shaping import hardened
from dgn.graph import Graph
from dgn.kernels.aggregation import Code
from dgn.operators.groups import check_group, group_field
from dgn.operators.weights import derivative_weights, smoothing_weights


class Weights(NamedTuple):
    """Weights of all directional sums of a plan: ``edge`` [E, W] sorted by target, ``self`` [N, W]."""

    edge: Tensor
    self: Tensor


@dataclass(frozen=True)
class Plan:
    """The outputs of an aggregation, one per name, in order, and the distinct weights that they need.

    Kernels compute one sum (or extreme, or variance) per entry of ``codes`` and ``columns``. ``spans`` are
    the numbers of them per output: one, or one per direction of a group, of which :meth:`join` takes the norm.
    ``num_directions`` is the number of field columns that are needed; ``has_self`` is true if any output has a self
    weight.
    """

    names: tuple[str, ...]
    codes: tuple[int, ...]
    columns: tuple[int, ...]
    weights: tuple[Directional, ...]
    num_directions: int
    has_self: bool
    spans: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def num_columns(self) -> int:
        """The number of columns of weights."""
        return sum(weight.columns for weight in self.weights)

    @property
    def has_groups(self) -> bool:
        """Whether any output is a norm over a group of directions, taken after the kernels."""
        return len(self.codes) > len(self.names)

    @property
    def needs_gap(self) -> bool:
        """Whether the gaps between eigenvalues are needed, to form groups of directions."""
        return any(weight.group is not None for weight in self.weights)

    def join(self, sums: Tensor) -> Tensor:
        """The outputs from the sums of a kernel: those along a group become their norm, ``[N, sums, C] -> [N, A, C]``.

        The gradient of a norm of 0 is 0, as for an absolute value.
        """
        if not self.has_groups:
            return sums
        parts = torch.split(sums, list(self.spans), dim=1)
        return torch.cat([part if part.size(1) == 1 else _norm(part) for part in parts], dim=1)

    def compute_weights(self, field: Tensor | None, graph: Graph, gap: Tensor | None = None) -> Weights:
        """The weights of a field on a graph, shared by all layers.

        ``gap`` holds the relative gaps of eigenvalues, for groups of directions: ``gap[component]`` of
        :class:`dgn.Directions`.

        Shapes:
            ``field`` [E, K] with K at least ``num_directions``, in the order of ``edge_index``; ``gap`` [N, K].
        """
        dtype = torch.get_default_dtype() if field is None else field.dtype
        if not self.weights:
            rows = graph.num_edges, graph.num_nodes
            return Weights(*(torch.empty(n, 0, dtype=dtype, device=graph.edge_index.device) for n in rows))
        if field is None or field.dim() != 2 or field.shape[0] != graph.num_edges:
            shape = "None" if field is None else f"shape {list(field.shape)}"
            raise ValueError(
                f"field: expected shape [{graph.num_edges}, K], one row per edge, for aggregators "
                f"{', '.join(self.names)}, got {shape}; dgn.transforms.AddDirections adds one to a Data, "
                "dgn.gradient(potential, edge_index) makes one"
            )
        if field.size(1) < self.num_directions:
            raise ValueError(
                f"field: expected at least {self.num_directions} columns for aggregators {', '.join(self.names)}, "
                f"got {field.size(1)}; pass k={self.num_directions} to AddDirections or dgn.directions"
            )
        pairs = [_weigh(weight, field, graph, gap) for weight in self.weights]
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
    starts = dict(zip(weights, accumulate((weight.columns for weight in weights), initial=0), strict=False))
    codes: list[int] = []
    columns: list[int] = []
    spans = tuple(p.columns if isinstance(p, Directional) else 1 for p in parsed)
    for aggregator, span in zip(parsed, spans, strict=True):
        if isinstance(aggregator, Directional):
            start = starts[replace(aggregator, absolute=False)]
            codes += [Code.ABSOLUTE if aggregator.absolute and span == 1 else Code.SIGNED] * span
            columns += range(start, start + span)
        else:
            codes.append(Code[aggregator.upper()])
            columns.append(0)
    num_directions = max((weight.num_directions for weight in weights), default=0)
    has_self = any(weight.operator == "dx" for weight in weights)
    return Plan(names, tuple(map(int, codes)), tuple(columns), weights, num_directions, has_self, spans)


def _norm(sums: Tensor) -> Tensor:
    """The norm over the middle of three dimensions, in float32 at least: half-precision squares would overflow."""
    wide = sums.to(torch.promote_types(sums.dtype, torch.float32))
    return power_norm(wide.square().sum(dim=1, keepdim=True), 2).to(sums.dtype)


def _weigh(weight: Directional, field: Tensor, graph: Graph, gap: Tensor | None) -> tuple[Tensor, Tensor]:
    """Edge and self weights of one output; ``field`` has all columns, [E, K]."""
    if weight.group is not None:
        return _weigh_group(weight, field[:, : weight.group], graph, gap if gap is None else gap[..., : weight.group])
    field = _along(weight, field)
    if weight.operator in ("fwd", "bwd"):
        field = forward_field(field) if weight.operator == "fwd" else backward_field(field)
    if weight.hardening is not None:
        field = hardened(field, graph, None if weight.hardening == math.inf else weight.hardening)
    if weight.operator == "dx":
        return derivative_weights(field, graph, weight.balance, weight.padding)
    return smoothing_weights(field, graph, weight.balance, weight.padding)


def _along(weight: Directional, field: Tensor) -> Tensor:
    """The column of a direction, or the sum or difference of two, [E, 1]."""
    first = field[:, weight.direction - 1 : weight.direction]
    if not weight.plus:
        return first
    second = field[:, abs(weight.plus) - 1 : abs(weight.plus)]
    return first + second if weight.plus > 0 else first - second


def _weigh_group(weight: Directional, field: Tensor, graph: Graph, gap: Tensor | None) -> tuple[Tensor, Tensor]:
    """Edge and self weights along a group of directions."""
    along = group_field(field, check_group(field, gap, graph), graph, weight.direction)
    if weight.operator == "dx":
        return along, -graph.sum_to_target(along)
    length = torch.linalg.vector_norm(along, dim=1, keepdim=True)
    return length, length.new_zeros(graph.num_nodes, 1)
