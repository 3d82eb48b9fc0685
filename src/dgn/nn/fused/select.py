"""Which route a layer takes: one table, with settings and device in and a :class:`Route` out.

| | route |
|---|---|
| on a CPU, without Triton, in evaluation, while tracing, under autocast, in another type than float32, in several processes, with another norm | ``PLAIN`` |
| else, with linear messages, no groups of directions, a constant field, the backend ``auto`` or ``triton``, at most ``WIDEST`` channels and ``MOST_EDGE_TYPES`` rows of edge features | ``LAYER`` |
| else | ``EPILOGUE`` |

``PLAIN`` is PyTorch with the aggregation kernels of :mod:`dgn.aggregation`; ``EPILOGUE`` runs what follows the
convolution (sum over scalers, graph norm, batch norm, ReLU, residual, dropout) in three Triton kernels each way;
``LAYER`` is the whole layer as one autograd function. What each route is worth is in docs/kernels.md.
"""  # noqa: E501

from dataclasses import dataclass
from enum import Enum
from importlib.util import find_spec
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from dgn.aggregation import Weights
from dgn.graph import Graph
from dgn.nn.block_linear import MessageLinear
from dgn.nn.edge_features import EdgeTable
from dgn.nn.fused.degree_groups import group_by_degree
from dgn.nn.norm import BatchNorm, trains_together

if TYPE_CHECKING:
    from dgn.nn.conv import DGNConv
    from dgn.nn.edge_features import Edges

WIDEST = 256  # channels of a fused layer: beyond, the library's matrix products are faster
MOST_EDGE_TYPES = 64  # rows of a table of edge features, for the same
WIDEST_HEAD = 128  # channels of a fused head
SMALLEST_GROUP = 64  # nodes of one degree, on average: below, many small products cost more than they save


class Route(Enum):
    """How a layer is computed."""

    PLAIN = "plain"
    EPILOGUE = "fused epilogue"
    LAYER = "fused layer"


@dataclass(frozen=True)
class LayerTraits:
    """What the choice of a route depends on.

    ``kernels_apply``: see :func:`kernels_apply`; ``backend`` of the convolution; ``edge_types`` rows of a table of edge
    features, 0 without a table; ``constant_field``: the field is not being learned.
    """

    kernels_apply: bool
    backend: str = "auto"
    linear_messages: bool = True
    has_groups: bool = False
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
    simple = traits.linear_messages and not traits.has_groups and traits.constant_field
    return Route.LAYER if fits and simple else Route.EPILOGUE


def layer_route(
    example: Tensor, conv: "DGNConv", norm: nn.Module | None, weights: Weights | None = None, edge_attr: "Edges" = None
) -> Route:
    """The route of a layer on features like ``example``; without ``weights``, of a field that is constant."""
    learned = weights is not None and torch.is_grad_enabled() and any(part.requires_grad for part in weights)
    traits = LayerTraits(
        kernels_apply=norm is not None and kernels_apply(example, norm),
        backend=conv.backend,
        linear_messages=conv.message is None or isinstance(conv.message, MessageLinear),
        has_groups=conv.plan.has_groups,
        width=max(conv.in_channels, conv.out_channels),
        edge_types=len(edge_attr.table) if isinstance(edge_attr, EdgeTable) else 0,
        constant_field=not learned,
    )
    return choose_route(traits)


def kernels_apply(example: Tensor, norm: nn.Module) -> bool:
    """Whether Triton kernels may do what a norm does: the usual batch norm, in eager float32 training on one GPU."""
    if not isinstance(norm, BatchNorm) or norm.plain:  # another one may have been put in its place
        return False
    usual = norm.training and norm.track_running_stats and norm.momentum is not None and norm.affine
    return usual and runs_on_triton(example) and not trains_together()


def runs_on_triton(example: Tensor) -> bool:
    """Whether fused kernels may run at all: some float32 numbers on a GPU, eagerly."""
    there = example.is_cuda and example.dtype == torch.float32 and example.numel() > 0
    return there and is_eager(example) and find_spec("triton") is not None


def is_eager(example: Tensor) -> bool:
    """Neither traced nor under autocast."""
    return not (torch.compiler.is_compiling() or torch.is_autocast_enabled(example.device.type))


def update_by_degree_pays(x: Tensor, towers: int, scalers: int, graph: Graph) -> bool:
    """Whether nodes of one degree share one matrix: on the CPU, several scalers, and many nodes of each degree."""
    if x.device.type != "cpu" or not is_eager(x) or towers > 1 or scalers == 1:
        return False
    return len(group_by_degree(graph).degree) * SMALLEST_GROUP <= graph.num_nodes


def head_is_fused(x: Tensor, weight: Tensor, widest: int) -> bool:
    """Whether the head is one kernel each way: narrow, on rows that Triton takes."""
    return x.dim() == 2 and weight.dtype == torch.float32 and widest <= WIDEST_HEAD and runs_on_triton(x)
