"""The aggregation matrices of section 2.4 and appendix A: B_av, B_dx and their variants."""

from typing import Any, Literal

import torch
from torch import Tensor

from dgn.fields.normalization import check_batch, divide, significant, unit_graphs, unit_rows
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_option, check_rows
from dgn.operators.operator import Operator

Balance = Literal["row", "center"]
Padding = Literal["zero"] | None
Scope = Literal["node", "graph"]


def smoothing(
    field: Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    balance: Balance = "row",
    padding: Padding = None,
    scope: Scope = "node",
    batch: Tensor | None = None,
) -> Operator:
    r"""The directional average :math:`B_{av}` (eq. 5) and its variants.

    .. math::
        B_{av} = \frac{|F_{i,:}|}{\|F_{i,:}\|_1}, \qquad
        B_{av\text{-}center} = \frac{F'^+ + F'^-}{\|F'^+ + F'^-\|_1}, \qquad
        B_{av,0pad} = \tfrac12 (F'^+ + F'^-), \qquad
        F'^\pm_{i,:} = \frac{|F^\pm_{i,:}|}{\|F^\pm_{i,:}\|_1}

    - ``balance="center"`` gives both sides of the field the same total weight (appendix A.3).
    - ``padding="zero"`` balances too, and lets a missing side count as a neighbour of value 0 (appendix A.6).
    - ``scope="graph"`` divides by the norm over the whole graph instead of each row (appendix A.2).

    Laws: weights are 0 or more; rows sum to 1, or 0 where the field is 0 (with padding, to 1/2 where one side is
    missing); :math:`B_{av}(-F) = B_{av}(F)`; a field of constant magnitude gives the mean (appendix A.1).

    Shapes:
        ``field`` [E, K] or [E]; see :class:`Operator`. ``batch`` [N] as in :func:`dgn.normalize`.

    >>> edges = torch.tensor([[0, 2, 1, 1], [1, 1, 0, 2]])
    >>> smoothing(torch.tensor([-1.0, 3.0, 1.0, -3.0]), edges, 3).dense().tolist()
    [[0.0, 1.0, 0.0], [0.25, 0.0, 0.75], [0.0, 1.0, 0.0]]
    """
    graph, field = _prepare(field, edge_index, num_nodes, balance, padding, scope, batch)
    return Operator(graph, *smoothing_weights(field, graph, balance, padding, scope))


def derivative(
    field: Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    balance: Balance = "row",
    padding: Padding = None,
    scope: Scope = "node",
    batch: Tensor | None = None,
) -> Operator:
    r"""The directional derivative :math:`B_{dx}` (eq. 6) and its variants.

    .. math::
        B_{dx} = \hat F - \mathrm{diag}\Big(\sum_j \hat F_{:,j}\Big), \qquad
        \hat F_{i,:} = \frac{F_{i,:}}{\|F_{i,:}\|_1}

    - ``balance="center"`` takes :math:`\hat F = \frac12 (F'^+ + F'^-)`, both sides normalised separately, with their
      signs: the mean of the forward and the backward derivative (appendix A.3).
    - ``padding="zero"`` is the same in the interior; where one side is missing it counts as a neighbour of value 0,
      and the row is the other side alone, :math:`F'^+` or :math:`F'^-`, without a diagonal (appendix A.6).
    - ``scope="graph"`` divides by the norm over the whole graph instead of each row (appendix A.2).

    Laws: a constant gives 0 (except at a padded boundary); :math:`B_{dx}(-F) = -B_{dx}(F)`; it is
    :func:`dgn.directional_derivative` of the normalised field (theorem 2.2); a constant field gives
    :math:`-D^{-1} L` (appendix A.1).

    Shapes:
        ``field`` [E, K] or [E]; see :class:`Operator`. ``batch`` [N] as in :func:`dgn.normalize`.

    >>> edges = torch.tensor([[0, 2, 1, 1], [1, 1, 0, 2]])
    >>> derivative(torch.tensor([-1.0, 3.0, 1.0, -3.0]), edges, 3).dense().tolist()
    [[-1.0, 1.0, 0.0], [-0.25, -0.5, 0.75], [0.0, -1.0, 1.0]]
    """
    graph, field = _prepare(field, edge_index, num_nodes, balance, padding, scope, batch)
    return Operator(graph, *derivative_weights(field, graph, balance, padding, scope))


def smoothing_weights(
    field: Tensor, graph: Graph, balance: Balance = "row", padding: Padding = None, scope: Scope = "node"
) -> tuple[Tensor, Tensor]:
    """Edge and self weights of :func:`smoothing`, for checked input. [E, K] and [N, K]"""
    if scope == "graph":
        weight = unit_graphs(field, graph).abs()
    elif balance == "row" and padding is None:
        weight = unit_rows(field, graph).abs()
    else:
        forward, backward = _sides(field, graph)
        both = forward + backward.abs()
        weight = both / 2 if padding == "zero" else unit_rows(both, graph)
    return weight, weight.new_zeros(graph.num_nodes, weight.size(1))


def derivative_weights(
    field: Tensor, graph: Graph, balance: Balance = "row", padding: Padding = None, scope: Scope = "node"
) -> tuple[Tensor, Tensor]:
    """Edge and self weights of :func:`derivative`, for checked input. [E, K] and [N, K]"""
    if balance == "row" and padding is None:
        weight = unit_rows(field, graph) if scope == "node" else unit_graphs(field, graph)
        return weight, -graph.sum_to_target(weight)
    forward, backward = _sides(field, graph)
    weight = (forward + backward) / 2
    node = -graph.sum_to_target(weight)
    if padding is None:
        return weight, node
    one_sided = (graph.sum_to_target(forward) == 0) | (graph.sum_to_target(backward) == 0)
    return torch.where(one_sided[graph.target], 2 * weight, weight), torch.where(one_sided, 0.0, node)


def _prepare(
    field: Tensor,
    edge_index: Any,
    num_nodes: int | None,
    balance: Balance,
    padding: Padding,
    scope: Scope,
    batch: Tensor | None,
) -> tuple[Graph, Tensor]:
    check_option("balance", balance, ("row", "center"))
    check_option("padding", padding, (None, "zero"))
    check_option("scope", scope, ("node", "graph"))
    if scope == "graph" and (balance, padding) != ("row", None):
        raise ValueError(
            f"scope: expected 'node' with balance={balance!r} and padding={padding!r}, got 'graph'; balancing and "
            "padding act on the two sides of one row, so leave both at their defaults or take scope='node'"
        )
    graph = as_graph(edge_index, num_nodes, batch)
    if scope == "graph":
        check_batch(graph)
    check_rows("field", field, graph.num_edges, "edge")
    return graph, field[:, None] if field.dim() == 1 else field


def _sides(field: Tensor, graph: Graph) -> tuple[Tensor, Tensor]:
    """The forward and the (signed) backward part, each normalised by rows separately."""
    clean = significant(field, graph)
    forward, backward = clean.clamp(min=0), clean.clamp(max=0)
    return (
        divide(forward, graph.sum_to_target(forward)[graph.target]),
        divide(backward, -graph.sum_to_target(backward)[graph.target]),
    )
