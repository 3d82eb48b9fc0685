"""The Hodge decomposition of edge flows: a gradient, and a rest that circulates."""

from typing import Any, NamedTuple

from torch import Tensor

from dgn.fields import gradient
from dgn.graph.checks import check_result
from dgn.spectral import flow_potential
from dgn.spectral.laplacians import weighted_graph


class HodgeDecomposition(NamedTuple):
    """A field as the sum of a gradient and a circulation, and the potential of the gradient.

    Shapes:
        ``potential`` [N, K] or [N], ``gradient`` and ``circulation`` [E, K] or [E], all float64.
    """

    potential: Tensor
    gradient: Tensor
    circulation: Tensor


def hodge_decomposition(
    field: Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    edge_weight: Tensor | None = None,
    tolerance: float = 1e-12,
) -> HodgeDecomposition:
    r"""The field as a gradient and the rest, which circulates (Jiang et al. 2011, arXiv:0811.1067).

    .. math:: F = \nabla \phi + R, \qquad \sum_{(i,j)} c_{ij} (\nabla \phi)_{ij} R_{ij} = 0

    :math:`\phi` is :func:`dgn.flow_potential` with the same weights c. The rest R of an antisymmetric field consists of
    flows around cycles.

    Laws: both parts add up to F and are orthogonal; R of a gradient is 0, and so is that of any antisymmetric field
    on a tree; R has no divergence (weighted by c, for a field that is antisymmetric); a projection: decomposing a part
    gives that part.

    Shapes:
        ``field`` [E, K] or [E], ``edge_weight`` [E]; see :class:`HodgeDecomposition`.

    >>> import torch
    >>> triangle = torch.tensor([[1, 2, 0], [0, 1, 2]])  # each edge once: at 0 towards 1, and so on
    >>> parts = hodge_decomposition(torch.tensor([3.0, 0.0, 0.0]), triangle)
    >>> parts.gradient.round(decimals=6).tolist(), parts.circulation.round(decimals=6).tolist()
    ([2.0, -1.0, -1.0], [1.0, 1.0, 1.0])
    """
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    potential = flow_potential(field, graph, edge_weight=edge_weight, tolerance=tolerance)
    slope = gradient(potential, graph)
    return HodgeDecomposition(potential, slope, check_result("hodge_decomposition", field.double() - slope))
