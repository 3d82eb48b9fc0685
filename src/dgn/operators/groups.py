"""Averages and derivatives along a group of directions, independent of its basis."""

from typing import Any

import torch
from torch import Tensor

from dgn.fields.normalization import EPSILON, divide
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_rows
from dgn.operators.operator import Operator
from dgn.spectral.grouping import WIDTH, group_around


def group_derivative(
    field: Tensor,
    gap: Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    direction: int = 1,
    width: float = WIDTH,
    batch: Tensor | None = None,
) -> Operator:
    r"""The derivatives along all directions of a group, one column each, of which the norm y is invariant.

    .. math::
        y_i = \kappa_g \Big\| \frac{\sum_j f_{ij} (x_j - x_i)}{\sum_j \|f_{ij}\|_2} \Big\|_2, \qquad
        f_{ij} = (m_1 F^1_{ij}, \dots, m_K F^K_{ij})

    :math:`F^l` is the gradient of eigenvector l, :math:`m_l` its membership in the group around ``direction`` g and
    :math:`\kappa_g` the strength of that group (:func:`dgn.spectral.grouping.group_around`). All directions of a row
    are divided by one norm: a separate norm for each would depend on the basis.

    Laws, of the norm y over the columns:
        - it stays the same under every orthogonal change of basis inside an eigenspace, and of any sign;
        - it is a continuous function of the weights of a graph, also where eigenvalues cross, at every node where
          :math:`f_i \ne 0`, and where :math:`\kappa_g = 0`. As for B_dx, a row that vanishes is 0;
        - it is 0 for a constant, and at most :math:`\max_j |x_j - x_i|`;
        - with relative gaps of ``width`` or more around :math:`\lambda_g` and up to :math:`\lambda_{K+1}`, it is
          :math:`|B_{dx}(F^g) x|`;
        - where the eigenspace of :math:`\lambda_g` reaches beyond direction K, it is 0, and near that it is small.

    Shapes:
        ``field`` [E, K], ``gap`` [N, K]: of the component of each node; the operator maps [N, C] to [N, K, C].

    >>> import dgn
    >>> from dgn.testing import cycle
    >>> ring, d = cycle(6)[0], dgn.directions(*cycle(6), k=2)  # a double eigenvalue
    >>> x = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    >>> B = group_derivative(dgn.gradient(d.potential, ring), d.gap[d.component], ring)
    >>> B(x).norm(dim=1).round(decimals=3).tolist()
    [0.5, 0.5, 0.0, 0.0, 0.0, 0.5]
    """
    graph = as_graph(edge_index, num_nodes, batch)
    check_group(field, gap, graph)
    weight = group_field(field, gap, graph, direction, width)
    return Operator(graph, weight, -graph.sum_to_target(weight))


def group_smoothing(
    field: Tensor,
    gap: Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    direction: int = 1,
    width: float = WIDTH,
    batch: Tensor | None = None,
) -> Operator:
    r"""The average of the neighbours along a group of directions.

    .. math:: y_i = \kappa_g \frac{\sum_j \|f_{ij}\|_2 \, x_j}{\sum_j \|f_{ij}\|_2}

    Symbols, shapes and laws are those of :func:`group_derivative`, with B_av instead of B_dx: weights are 0 or
    more, and rows sum to :math:`\kappa_g`, or 0 where the field of the group is 0. One column.

    >>> import dgn
    >>> from dgn.testing import cycle
    >>> ring, d = cycle(6)[0], dgn.directions(*cycle(6), k=2)
    >>> B = group_smoothing(dgn.gradient(d.potential, ring), d.gap[d.component], ring)
    >>> B.dense()[0].round(decimals=3).tolist()
    [0.0, 0.5, 0.0, 0.0, 0.0, 0.5]
    """
    graph = as_graph(edge_index, num_nodes, batch)
    check_group(field, gap, graph)
    weight = torch.linalg.vector_norm(group_field(field, gap, graph, direction, width), dim=1, keepdim=True)
    return Operator(graph, weight, weight.new_zeros(graph.num_nodes, 1))


def group_field(field: Tensor, gap: Tensor, graph: Graph, direction: int, width: float = WIDTH) -> Tensor:
    r"""The field of a group, :math:`\kappa_g f_{ij} / \sum_j \|f_{ij}\|_2`, for checked input. [E, K]

    Vectors :math:`f_{ij}` no longer than 1e-8 of the longest in the same graph are rounding noise and count as 0; see
    :func:`dgn.normalize` for a giant component beside small ones.
    """
    group = group_around(gap.to(field.dtype), direction, width)
    f = group.member[graph.target] * field
    # In units of the largest component, squares neither vanish nor overflow.
    f = divide(f, graph.max_over_graph(f.detach().abs().amax(dim=1, keepdim=True)))
    length = torch.linalg.vector_norm(f, dim=1, keepdim=True)
    noise = length.detach() <= EPSILON * graph.max_over_graph(length.detach())
    f, length = torch.where(noise, 0.0, f), torch.where(noise, 0.0, length)
    factor = divide(group.strength[:, None][graph.target], graph.sum_to_target(length)[graph.target])
    return f * factor


def check_group(field: Tensor, gap: Tensor | None, graph: Graph) -> Tensor:
    """The gaps, if their shape fits the field; raises otherwise."""
    check_rows("field", field, graph.num_edges, "edge")
    shape = None if gap is None else list(gap.shape)
    if gap is None or shape != [graph.num_nodes, field.size(-1)] or field.dim() != 2:
        raise ValueError(
            f"gap: expected shape [{graph.num_nodes}, K], the relative gaps at each node, for a field [E, K] of "
            f"{list(field.shape)}, got {shape}; dgn.transforms.AddDirections adds them, and directions(...) has them "
            "as gap[component]"
        )
    if not gap.is_floating_point() or (not torch.compiler.is_compiling() and bool(((gap < 0) | (gap > 1)).any())):
        raise ValueError(
            f"gap: expected relative gaps from 0 to 1, or NaN where there is no vector, got {gap.dtype} from "
            f"{gap.real.min()} to {gap.real.max()}; directions(...) has them as gap[component]"
        )
    return gap
