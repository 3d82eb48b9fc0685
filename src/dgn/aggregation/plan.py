"""A plan: aggregator names, parsed once into the codes of the kernels."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from dgn.aggregation.names import Directional, WalkFamily, parse
from dgn.aggregation.walks import Schedule, make_schedule
from dgn.fields.calculus import power_norm
from dgn.fields.normalization import unit_rows
from dgn.fields.shaping import hardened
from dgn.graph import Graph
from dgn.graph.checks import HAS_TRITON, assert_finite_field, check_field, check_field_type
from dgn.graph.memo import remember
from dgn.kernels.aggregation import Code
from dgn.operators.groups import check_group, group_field
from dgn.operators.radius import step_weights
from dgn.operators.weights import derivative_weights, smoothing_weights


class Weights(NamedTuple):
    """Weights of all directional sums of a plan: ``edge`` [E, W] sorted by target, ``self`` [N, W]."""

    edge: Tensor
    self: Tensor


@dataclass(frozen=True)
class Steps:
    """The weights of one step forward and one backward along each of the first ``num_directions`` fields."""

    num_directions: int
    group: None = None
    operator: str = "step"

    @property
    def columns(self) -> int:
        return 2 * self.num_directions


@dataclass(frozen=True)
class Walking:
    """A family of walks among the outputs of a plan.

    ``index`` is that of its name, ``first`` that of the sum of its first step, and ``steps`` the plans of a step along
    fields k, ..., n for each k.
    """

    index: int
    first: int
    schedule: Schedule
    steps: tuple["Plan", ...]


@dataclass(frozen=True)
class Plan:
    """The outputs of an aggregation, one per name, in order, and the distinct weights that they need.

    Kernels compute one sum (or extreme, or variance) per entry of ``codes`` and ``columns``. ``spans`` are
    the numbers of them per output: one, or one per direction of a group, of which :meth:`join` takes the norm.
    ``num_columns`` is the number of columns of weights, ``num_directions`` that of field columns they need;
    ``has_self`` is true if any output has a self weight, ``has_groups`` if any is a norm over a group of directions,
    which is taken after the kernels. ``walks`` are the families of walks: a plan computes their first steps.
    ``one_pass`` is true if the sums of a kernel are the outputs: no norms over groups, no walks of several steps.
    ``kernel_columns`` say of each column of weights along which column of the field it is, and whether it is a
    derivative; ``None`` unless all are those of B_av or B_dx along one direction, without variants.
    """

    names: tuple[str, ...]
    codes: tuple[int, ...]
    columns: tuple[int, ...]
    weights: tuple[Directional | Steps, ...]
    num_directions: int
    has_self: bool
    spans: tuple[int, ...]
    num_columns: int
    has_groups: bool
    walks: tuple[Walking, ...] = ()
    one_pass: bool = field(init=False)
    kernel_columns: tuple[tuple[int, bool], ...] | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "one_pass", not self.has_groups and not self.walks)
        object.__setattr__(self, "kernel_columns", _kernel_columns(self.weights))

    def __len__(self) -> int:
        return len(self.names) + sum(len(walk.schedule.order) - 1 for walk in self.walks)

    @property
    def reads_node(self) -> bool:
        """Whether the message of a node to itself is read (by derivatives, and walks of no steps)."""
        return self.has_self or any(walk.schedule.identity for walk in self.walks)

    @property
    def needs_gap(self) -> bool:
        """Whether the gaps between eigenvalues are needed, to form groups of directions."""
        return any(weight.group is not None for weight in self.weights)

    def join(self, sums: Tensor, walked: Sequence[Tensor] = ()) -> Tensor:
        """The outputs from the sums of a kernel: those along a group become their norm, ``[N, sums, C] -> [N, A, C]``.

        ``walked`` are the outputs of each family of walks. The gradient of a norm of 0 is 0, as for an absolute value.
        """
        parts = list(torch.split(sums, list(self.spans), dim=1))
        families = [walk.index for walk in self.walks]
        joined = [part if part.size(1) == 1 or i in families else _norm(part) for i, part in enumerate(parts)]
        for index, outputs in zip(families, walked, strict=True):
            joined[index] = outputs
        return torch.cat(joined, dim=1)

    def compute_weights(self, edge_field: Tensor | None, graph: Graph, gap: Tensor | None = None) -> Weights:
        """The weights of a field on a graph, shared by all layers.

        ``gap`` holds the relative gaps of eigenvalues, for groups of directions: ``gap[component]`` of
        :class:`dgn.Directions`.

        Shapes:
            ``edge_field`` [E, K] with K at least ``num_directions``, in the order of ``edge_index``; ``gap`` [N, K].
        """
        if not self.weights:
            dtype, rows = torch.get_default_dtype(), (graph.num_edges, graph.num_nodes)
            dtype = dtype if edge_field is None else edge_field.dtype
            return Weights(*(torch.empty(n, 0, dtype=dtype, device=graph.edge_index.device) for n in rows))
        field = self._check_field_shape(edge_field, graph)
        pairs = [_weigh(weight, field, graph, gap) for weight in self.weights]
        edge, node = (torch.cat(parts, dim=1) for parts in zip(*pairs, strict=True))
        return Weights(edge[graph.by_target.order], node)

    def _check_field_shape(self, field: Tensor | None, graph: Graph) -> Tensor:
        """The field, if it has a row per edge and enough columns."""
        if field is None or field.dim() != 2 or field.shape[0] != graph.num_edges:
            shape = "None" if field is None else f"shape {list(field.shape)}"
            remedy = "dgn.transforms.AddDirections adds one to a Data, dgn.gradient(potential, edge_index) makes one"
            if field is not None and field.shape[0] != graph.num_edges:
                remedy = "apply transforms that change edges before AddDirections, or make the field of the new edges"
            raise ValueError(
                f"edge_field: expected shape [{graph.num_edges}, K], one row per edge, for aggregators "
                f"{', '.join(self.names)}, got {shape}; {remedy}"
            )
        if field.size(1) < self.num_directions:
            raise ValueError(
                f"edge_field: expected at least {self.num_directions} columns for aggregators {', '.join(self.names)}, "
                f"got {field.size(1)}; pass k={self.num_directions} to AddDirections or dgn.directions"
            )
        return field

    def cached_weights(
        self, edge_field: Tensor | None, graph: Graph, gap: Tensor | None, dtype: torch.dtype
    ) -> Weights:
        """:meth:`compute_weights` of a field in ``dtype``, kept by the graph for layers that are given the same one."""

        def compute() -> Weights:
            if edge_field is None or not self.weights:
                return self.compute_weights(None, graph, gap)
            check_field_type(edge_field)
            field = edge_field.to(dtype)
            if self.kernel_columns is not None and _kernel_applies(field, graph):
                field = self._check_field_shape(field, graph).contiguous()
                return _weigh_by_kernel(self.kernel_columns, field, graph)
            check_field(edge_field)
            return self.compute_weights(field, graph, gap)

        tensors = tuple(part for part in (edge_field, gap) if part is not None)
        return remember(graph.parts.derived, (self.weights, dtype), tensors, compute)


def _kernel_columns(weights: tuple[Directional | Steps, ...]) -> tuple[tuple[int, bool], ...] | None:
    """See :class:`Plan`."""
    columns = []
    for weight in weights:
        if not isinstance(weight, Directional) or weight.operator not in ("av", "dx"):
            return None
        if weight != Directional(weight.operator, weight.direction):
            return None
        columns.append((weight.direction - 1, weight.operator == "dx"))
    return tuple(columns)


def _weigh_by_kernel(columns: tuple[tuple[int, bool], ...], field: Tensor, graph: Graph) -> Weights:
    """:meth:`Plan.compute_weights` of such columns on a GPU, with the check that the field is finite."""
    pointer, order, _ = graph.by_target
    if torch.compiler.is_compiling():
        directions, derivative = map(list, zip(*columns, strict=True))
        return Weights(*torch.ops.dgn.field_weights(field, pointer, order, directions, derivative))
    from dgn.kernels.triton import field_weights

    largest, finite = field_weights.largest_component(field)
    assert_finite_field(finite)
    return Weights(*field_weights.compute(field, largest, columns, pointer, order))


def _kernel_applies(field: Tensor, graph: Graph) -> bool:
    """Whether one kernel may compute weights: of a constant field on a GPU, on one graph."""
    if not (field.is_cuda and HAS_TRITON) or field.requires_grad or graph.batch is not None:
        return False
    if field.dtype not in (torch.float32, torch.float64):
        return False
    return torch.compiler.is_compiling() or (field.numel() > 0 and not torch._C._are_functorch_transforms_active())


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
    weights = tuple(dict.fromkeys(_weights_of(p) for p in parsed if not isinstance(p, str)))
    starts = dict(zip(weights, accumulate((weight.columns for weight in weights), initial=0), strict=False))
    codes: list[int] = []
    columns: list[int] = []
    spans = tuple(1 if isinstance(p, str) else _weights_of(p).columns for p in parsed)
    for aggregator, span in zip(parsed, spans, strict=True):
        if isinstance(aggregator, str):
            codes.append(Code[aggregator.upper()])
            columns.append(0)
            continue
        start = starts[_weights_of(aggregator)]
        absolute = isinstance(aggregator, Directional) and aggregator.absolute and span == 1
        codes += [Code.ABSOLUTE if absolute else Code.SIGNED] * span
        columns += range(start, start + span)
    num_directions = max((weight.num_directions for weight in weights), default=0)
    has_self = any(weight.operator == "dx" for weight in weights)
    num_columns = sum(weight.columns for weight in weights)
    has_groups = any(isinstance(p, Directional) and p.columns > 1 for p in parsed)
    walks = tuple(
        _walking(index, p, sum(spans[:index]), starts[_weights_of(p)], num_columns)
        for index, p in enumerate(parsed)
        if isinstance(p, WalkFamily)
    )
    return Plan(
        names,
        tuple(map(int, codes)),
        tuple(columns),
        weights,
        num_directions,
        has_self,
        spans,
        num_columns,
        has_groups,
        walks,
    )


def _walking(index: int, family: WalkFamily, first: int, column: int, num_columns: int) -> Walking:
    """The family with this index; the weights of its steps begin at ``column`` of ``num_columns``."""
    steps = []
    for k in range(family.fields):
        columns = tuple(range(column + 2 * k, column + 2 * family.fields))
        count = len(columns)
        codes = (int(Code.SIGNED),) * count
        steps.append(Plan(("step",) * count, codes, columns, (), 0, False, (1,) * count, num_columns, False))
    return Walking(index, first, make_schedule(family), tuple(steps))


def _weights_of(aggregator: Directional | WalkFamily) -> Directional | Steps:
    """The weights of an aggregator; the absolute value is taken of the sum, and walks share their steps."""
    return Steps(aggregator.fields) if isinstance(aggregator, WalkFamily) else replace(aggregator, absolute=False)


def _norm(sums: Tensor) -> Tensor:
    """The norm over the middle of three dimensions, in float32 at least: half-precision squares would overflow."""
    wide = sums.to(torch.promote_types(sums.dtype, torch.float32))
    return power_norm(wide.square().sum(dim=1, keepdim=True), 2).to(sums.dtype)


def _weigh(weight: Directional | Steps, field: Tensor, graph: Graph, gap: Tensor | None) -> tuple[Tensor, Tensor]:
    """Edge and self weights of one output; ``field`` has all columns, [E, K]."""
    if isinstance(weight, Steps):
        return step_weights(unit_rows(field[:, : weight.num_directions], graph), graph)
    if weight.group is not None:
        return _weigh_group(weight, field[:, : weight.group], graph, gap if gap is None else gap[..., : weight.group])
    field = _along(weight, field)
    if weight.operator in ("fwd", "bwd"):
        field = field.clamp(min=0) if weight.operator == "fwd" else field.clamp(max=0)
    if weight.hardening is not None:
        temperature = None if weight.hardening == math.inf else weight.hardening
        field = hardened(field, graph, temperature, weight.split)
    weigh = derivative_weights if weight.operator == "dx" else smoothing_weights
    return weigh(field, graph, weight.balance, weight.padding, weight.scope)


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
