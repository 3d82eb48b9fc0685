"""Calculus of vector fields on a graph (section 2.3).

A field is a tensor ``[E, K]`` (or ``[E]``): row e belongs to the edge ``edge_index[:, e] = (j, i)`` and holds
:math:`F_{ij}`, the component at i towards j. The row i of the paper's matrix F is the set of edges with target i.
"""

from typing import Any

import torch
from torch import Tensor

from dgn.graph import Graph, as_graph, graph_of_nodes
from dgn.graph.checks import check_columns, check_numbers, check_result, check_rows, check_weight


def node_product(x: Tensor, y: Tensor) -> Tensor:
    r"""Scalar product of node signals (eq. 1): :math:`\langle x, y \rangle = \sum_i x_i y_i`, column by column.

    >>> node_product(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])).item()
    11.0
    """
    check_numbers("x", x)
    check_rows("y", y, len(x), "row of x")
    check_columns("y", y, x)
    return check_result("node_product", (x * y).sum(dim=0))


def edge_product(field: Tensor, other: Tensor) -> Tensor:
    r"""Scalar product of fields (eq. 1): :math:`\langle F, H \rangle = \sum_{(i,j)} F_{ij} H_{ij}`, column by column.

    >>> edge_product(torch.tensor([1.0, -1.0]), torch.tensor([2.0, -2.0])).item()
    4.0
    """
    check_numbers("field", field)
    check_rows("other", other, len(field), "row of field")
    check_columns("other", other, field)
    return check_result("edge_product", (field * other).sum(dim=0))


def gradient(potential: Tensor, edge_index: Any, edge_weight: Tensor | None = None) -> Tensor:
    r"""The gradient of node potentials (eq. 3): :math:`(\nabla \phi)_{ij} = w_{ij} (\phi_j - \phi_i)`.

    Without ``edge_weight`` every weight is 1. An edge of integer weight is as many parallel edges, and one of weight 0
    has no field.

    Laws: linear; 0 for a constant; antisymmetric, :math:`F_{ij} = -F_{ji}`, where the weights are symmetric; 0 on
    self-loops; :math:`\mathrm{div} \nabla = -L` with the same weights.

    Shapes:
        ``potential`` [N, K] or [N], ``edge_weight`` [E]; returns [E, K] or [E].

    >>> gradient(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([[1, 2, 0], [0, 1, 2]])).tolist()
    [1.0, 2.0, -3.0]
    """
    if not isinstance(potential, Tensor) or potential.dim() == 0:
        raise TypeError("potential: expected a tensor [N, K] or [N], one row per node; convert it with torch.as_tensor")
    graph = graph_of_nodes(edge_index, potential)
    check_rows("potential", potential, graph.num_nodes, "node")
    difference = differences(potential, graph)
    if edge_weight is not None:
        check_weight(edge_weight, graph.num_edges)
        difference = scale_rows(difference, edge_weight.to(difference.dtype))
    return check_result("gradient", difference)


def differences(potential: Tensor, graph: Graph) -> Tensor:
    """The difference of potentials, source minus target, along each edge: [N, K] to [E, K]; nothing is checked."""
    return potential.index_select(0, graph.source) - potential.index_select(0, graph.target)


def divergence(field: Tensor, edge_index: Any, num_nodes: int | None = None) -> Tensor:
    r"""The divergence of a field (eq. 3): :math:`(\mathrm{div} F)_i = \sum_j F_{ij}`.

    Laws: linear; on an undirected graph :math:`\mathrm{div} \nabla = -L` and, for an antisymmetric field,
    :math:`\langle \nabla x, F \rangle = -2 \langle x, \mathrm{div} F \rangle`.

    Shapes:
        ``field`` [E, K] or [E]; returns [N, K] or [N].

    >>> divergence(torch.tensor([1.0, 2.0, -3.0]), torch.tensor([[1, 2, 0], [0, 1, 1]]), 3).tolist()
    [1.0, -1.0, 0.0]
    """
    graph = as_graph(edge_index, num_nodes)
    check_rows("field", field, graph.num_edges, "edge")
    return check_result("divergence", graph.sum_to_target(field))


def inner_product(field: Tensor, other: Tensor, edge_index: Any, num_nodes: int | None = None) -> Tensor:
    r"""The inner product of two fields at every node (eq. 2): :math:`\langle F, H \rangle_i = \sum_j F_{ij} H_{ij}`.

    Shapes:
        both fields [E, K] or [E]; returns [N, K] or [N].

    >>> field = torch.tensor([1.0, 2.0, -3.0])
    >>> inner_product(field, field, torch.tensor([[1, 2, 0], [0, 1, 1]]), 3).tolist()
    [1.0, 13.0, 0.0]
    """
    graph = as_graph(edge_index, num_nodes)
    check_rows("field", field, graph.num_edges, "edge")
    check_rows("other", other, graph.num_edges, "edge")
    check_columns("other", other, field)
    return check_result("inner_product", graph.sum_to_target(field * other))


def row_norm(field: Tensor, edge_index: Any, num_nodes: int | None = None, p: int = 1) -> Tensor:
    r"""The norm of the field at every node: :math:`\|F_{i,:}\|_{L^p}` with p = 1 or 2.

    Shapes:
        ``field`` [E, K] or [E]; returns [N, K] or [N].

    >>> row_norm(torch.tensor([3.0, -4.0]), torch.tensor([[1, 2], [0, 0]]), 3, p=2).tolist()
    [5.0, 0.0, 0.0]
    """
    graph = as_graph(edge_index, num_nodes)
    check_rows("field", field, graph.num_edges, "edge")
    return check_result("row_norm", power_norm(graph.sum_to_target(magnitude(field, p)), p))


def directional_derivative(x: Tensor, field: Tensor, edge_index: Any) -> Tensor:
    r"""The derivative of a signal along a field, without normalisation (eq. 4).

    .. math:: D_F x(i) = \langle \nabla x, F \rangle_i = \sum_j (x_j - x_i) F_{ij}

    Laws: linear in x and in F; 0 for a constant x; with the field normalised by rows it is the operator
    :func:`dgn.derivative` (theorem 2.2).

    Shapes:
        ``x`` [N, C] or [N], ``field`` [E, K]; returns [N, K, C] or [N, K].

    >>> x, edges = torch.tensor([0.0, 1.0, 3.0]), torch.tensor([[1, 0, 2, 1], [0, 1, 1, 2]])
    >>> directional_derivative(x, torch.tensor([[1.0], [-1.0], [1.0], [-1.0]]), edges).tolist()
    [[1.0], [3.0], [2.0]]
    """
    graph = graph_of_nodes(edge_index, x)
    check_rows("x", x, graph.num_nodes, "node")
    check_rows("field", field, graph.num_edges, "edge")
    check_columns("field", field)
    slope = gradient(x, graph)
    along = field[:, None] if field.dim() == 1 else field
    columns = [graph.sum_to_target(scale_rows(slope, weight)) for weight in along.unbind(1)]
    return check_result("directional_derivative", stack_columns(columns, x))


def scale_rows(values: Tensor, weight: Tensor) -> Tensor:
    """``values [R, ...]`` with each row multiplied by its entry of ``weight [R]``."""
    return values * weight.view(-1, *[1] * (values.dim() - 1))


def stack_columns(columns: list[Tensor], like: Tensor) -> Tensor:
    """K signals shaped ``like`` [N, ...], stacked to [N, K, ...], also for K = 0."""
    return torch.stack(columns, dim=1) if columns else like.new_zeros(len(like), 0, *like.shape[1:])


def magnitude(field: Tensor, p: int) -> Tensor:
    """The terms under the root of a p-norm, p = 1 or 2."""
    if p not in (1, 2):
        raise ValueError(f"p: expected 1 or 2, got {p!r}; 1 is the paper's norm for B_av and B_dx, 2 for rotations")
    return field.abs() if p == 1 else field.square()


def power_norm(total: Tensor, p: int) -> Tensor:
    """The root of a p-norm, with gradient 0 instead of NaN at 0."""
    if p == 1:
        return total
    positive = total > 0
    return torch.where(positive, torch.where(positive, total, 1.0).sqrt(), 0.0)
