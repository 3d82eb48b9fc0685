"""Normalisation of fields, per node and per graph (eq. 6 and appendix A.2)."""

from typing import Any, Literal

import torch
from torch import Tensor

from dgn.fields.calculus import magnitude, power_norm
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_option, check_rows

EPSILON = 1e-8


def normalize(
    field: Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    p: int = 1,
    scope: Literal["node", "graph"] = "node",
    batch: Tensor | None = None,
) -> Tensor:
    r"""The field divided by its norm: at each node (:math:`\hat F`, eq. 6) or over the whole graph (appendix A.2).

    .. math::
        \hat F_{i,:} = \frac{F_{i,:}}{\|F_{i,:}\|_{L^p}} \;(\text{"node"}), \qquad
        \hat F = \frac{F}{(\sum_{ij} |F_{ij}|^p)^{1/p}} \;(\text{"graph"})

    The paper's eps keeps rounding noise from becoming a direction. Here components no larger than 1e-8
    times the largest of the same direction in the same graph count as 0 (:func:`significant`): rows then have norm 1
    or 0 exactly, and the scale of the field does not matter. Eigenvectors have unit length on each connected
    component, so that beside small components the field of a giant one may count as noise: for ``"node"``, pass
    ``batch=directions.component``.

    Laws: rows have norm 1 or 0; positive multiples of F give the same; idempotent; -F gives the negative.

    Shapes:
        ``field`` [E, K] or [E], ``batch`` [N] the graph of each node (none: all one graph, refused for ``"graph"``).

    >>> edges = torch.tensor([[1, 2, 0], [0, 0, 1]])
    >>> normalize(torch.tensor([3.0, -1.0, 0.0]), edges, 3).tolist()
    [0.75, -0.25, 0.0]
    >>> normalize(torch.tensor([3.0, 0.0, 1.0]), edges, 3, scope="graph", batch=torch.zeros(3).long()).tolist()
    [0.75, 0.0, 0.25]
    """
    check_option("scope", scope, ("node", "graph"))
    graph = as_graph(edge_index, num_nodes, batch)
    check_rows("field", field, graph.num_edges, "edge")
    if scope == "node":
        return unit_rows(field, graph, p)
    check_batch(graph)
    return unit_graphs(field, graph, p)


def check_batch(graph: Graph) -> None:
    """Require the graph of each node, for norms over graphs."""
    if graph.batch is None:
        raise ValueError(
            "batch: expected the graph index of each node for scope='graph', got None; pass batch=data.batch, or "
            "zeros for a single graph"
        )


def unit_graphs(field: Tensor, graph: Graph, p: int = 1) -> Tensor:
    """``normalize`` over each graph, for checked input; without a batch, all nodes are one graph."""
    scaled = _scaled(field, graph)
    owner = torch.zeros_like(graph.target) if graph.batch is None else graph.batch[graph.target]
    total = field.new_zeros(graph.num_graphs, *field.shape[1:]).index_add(0, owner, magnitude(scaled, p))
    return divide(scaled, power_norm(total, p)[owner])


def unit_rows(field: Tensor, graph: Graph, p: int = 1) -> Tensor:
    """``normalize`` at each node, for checked input."""
    scaled = _scaled(field, graph)
    return divide(scaled, power_norm(graph.sum_to_target(magnitude(scaled, p)), p)[graph.target])


def significant(field: Tensor, graph: Graph) -> Tensor:
    """The field without noise: components up to 1e-8 of the largest one of their direction in the graph become 0."""
    return _without_noise(field, graph.max_over_graph(field.detach().abs()))


def _scaled(field: Tensor, graph: Graph) -> Tensor:
    """The significant part in units of the largest component, whose squares neither vanish nor overflow."""
    largest = graph.max_over_graph(field.detach().abs())
    return divide(_without_noise(field, largest), largest)


def _without_noise(field: Tensor, largest: Tensor) -> Tensor:
    size = field.detach().abs()
    return torch.where((size <= EPSILON * largest) & torch.isfinite(size), 0.0, field)


def divide(field: Tensor, norm: Tensor) -> Tensor:
    """The field divided by a norm, with 0 / 0 = 0 and a gradient of 0 there; NaN propagates."""
    zero = norm == 0
    return torch.where(zero, 0.0, field / torch.where(zero, 1.0, norm))
