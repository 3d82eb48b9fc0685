"""Which route a layer takes: one table, with settings and device in and a :class:`Route` out.

| | route |
|---|---|
| on a CPU, without Triton, in evaluation, while tracing, under autocast, in another type than float32, in several processes, with another norm | ``PLAIN`` |
| else, with linear messages, no groups of directions or walks, a constant field, the backend ``auto`` or ``triton``, at most ``WIDEST`` channels and ``MOST_EDGE_TYPES`` rows of edge features | ``LAYER`` |
| else | ``EPILOGUE`` |

``PLAIN`` is PyTorch with the aggregation kernels of :mod:`dgn.aggregation`; ``EPILOGUE`` runs what follows the
convolution (sum over scalers, graph norm, batch norm, ReLU, residual, dropout) in three Triton kernels each way;
``LAYER`` is the whole layer as one autograd function. What each route is worth is in docs/kernels.md.
"""  # noqa: E501

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor, nn

from dgn.aggregation import Weights
from dgn.graph import Graph
from dgn.graph.checks import HAS_TRITON
from dgn.nn.edge_features import EdgeTable
from dgn.nn.linear import MessageLinear, group_by_degree
from dgn.nn.norm import BatchNorm, trains_together

if TYPE_CHECKING:
    from dgn.nn.conv import DGNConv
    from dgn.nn.edge_features import Edges

WIDEST = 256  # channels of a fused layer: beyond, the library's matrix products are faster
MOST_EDGE_TYPES = 64  # rows of a table of edge features, for the same
SMALLEST_GROUP = 64  # nodes of one degree, on average: below, many small products cost more than they save


class Route(Enum):
    """How a layer is computed."""

    PLAIN = "plain"
    EPILOGUE = "fused epilogue"
    LAYER = "fused layer"


class LayerTraits(NamedTuple):
    """What the choice of a route depends on.

    ``kernels_apply``: see :func:`kernels_apply`; ``backend`` of the convolution; ``edge_types`` rows of a table of edge
    features, 0 without a table; ``one_pass``: the sums of a kernel are the outputs; ``constant_field``: the field is
    not being learned.
    """

    kernels_apply: bool
    backend: str = "auto"
    linear_messages: bool = True
    one_pass: bool = True
    width: int = 1
    edge_types: int = 0
    constant_field: bool = True


def choose_route(traits: LayerTraits) -> Route:
    """The table.

    >>> choose_route(LayerTraits(kernels_apply=True, width=64)), choose_route(LayerTraits(kernels_apply=False))
    (<Route.LAYER: 'fused layer'>, <Route.PLAIN: 'plain'>)
    """
    if not traits.kernels_apply:
        return Route.PLAIN
    fits = traits.width <= WIDEST and traits.edge_types <= MOST_EDGE_TYPES and traits.backend in ("auto", "triton")
    simple = traits.linear_messages and traits.one_pass and traits.constant_field
    return Route.LAYER if fits and simple else Route.EPILOGUE


def layer_route(
    example: Tensor, conv: "DGNConv", norm: nn.Module | None, weights: Weights | None = None, edge_attr: "Edges" = None
) -> Route:
    """The route of a layer on features like ``example``; without ``weights``, of a field that is constant."""
    applies = norm is not None and kernels_apply(example, norm)
    return choose_route(_traits(conv, weights, edge_attr, applies)) if applies else Route.PLAIN


def _traits(conv: "DGNConv", weights: Weights | None, edge_attr: "Edges", kernels_apply: bool) -> LayerTraits:
    requires_grad = weights is not None and (weights.edge.requires_grad or weights.self.requires_grad)
    return LayerTraits(
        kernels_apply=kernels_apply,
        backend=conv.backend,
        linear_messages=not conv.explain and (conv.message is None or isinstance(conv.message, MessageLinear)),
        one_pass=conv.plan.one_pass,
        width=max(conv.in_channels, conv.out_channels),
        edge_types=len(edge_attr.table) if isinstance(edge_attr, EdgeTable) else 0,
        constant_field=not (requires_grad and torch.is_grad_enabled()),
    )


def kernels_apply(example: Tensor, norm: nn.Module) -> bool:
    """Whether Triton kernels may do what a norm does: the usual batch norm, in eager float32 training on one GPU."""
    if not isinstance(norm, BatchNorm) or norm.plain:  # another one may have been put in its place
        return False
    usual = norm.training and norm.track_running_stats and norm.momentum is not None and norm.affine
    return usual and runs_on_triton(example) and not trains_together()


def runs_on_triton(example: Tensor) -> bool:
    """Whether fused kernels may run at all: some float32 numbers on a GPU, eagerly."""
    there = HAS_TRITON and example.is_cuda and example.dtype == torch.float32 and example.numel() > 0
    return there and is_eager(example)


def is_eager(example: Tensor) -> bool:
    """Neither traced nor under autocast."""
    return not (torch.compiler.is_compiling() or torch.is_autocast_enabled(example.device.type))


def conv_is_fused(x: Tensor, conv: "DGNConv", weights: Weights, edge_attr: "Edges") -> bool:
    """Whether a convolution by itself is one autograd function: as :attr:`Route.LAYER`, but also in evaluation."""
    if not runs_on_triton(x) or torch._C._are_functorch_transforms_active():
        return False
    same_type = not isinstance(edge_attr, Tensor) or edge_attr.dtype == x.dtype
    return same_type and choose_route(_traits(conv, weights, edge_attr, kernels_apply=True)) == Route.LAYER


def update_by_degree_pays(x: Tensor, towers: int, scalers: int, graph: Graph) -> bool:
    """Whether nodes of one degree share one matrix: on the CPU, several scalers, and many nodes of each degree."""
    if x.device.type != "cpu" or not is_eager(x) or towers > 1 or scalers == 1:
        return False
    return len(group_by_degree(graph).degree) * SMALLEST_GROUP <= graph.num_nodes
