"""Fields of directed graphs: the orientation of edges, and phase differences of complex potentials."""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from dgn.graph import as_graph, graph_of_nodes
from dgn.graph.checks import check_columns, check_rows
from dgn.graph.graph import largest_by

SIGNIFICANT = 1e-8  # smallest magnitude of a complex potential, relative to the largest, that has a phase
OPPOSITE = 1e-6  # sine of a phase difference below which it is 0 or half a turn: no direction


class Orientation(NamedTuple):
    """A directed graph with the reverse of every edge, and the field that points along the edges as given.

    Shapes:
        - ``edge_index`` [2, E']: the edges as given, then the reverse of each one that is no self-loop.
        - ``field`` [E', K] or [E'].
        - ``edge`` [E']: the given edge that each one comes from; ``edge_attr[edge]`` are its features.
    """

    edge_index: Tensor
    field: Tensor
    edge: Tensor


def orientation(edge_index: Any, num_nodes: int | None = None, flow: Tensor | None = None) -> Orientation:
    r"""The field of a flow along directed edges, with the reverse edges on which it is also defined.

    .. math:: F_{ij} = f_{i \to j} \text{ on an edge as given}, \qquad F_{ji} = -f_{i \to j} \text{ against it}

    ``flow`` is f, the flow from the source to the target of each edge: 1 unless given, for example the weight of a
    directed edge, a current, a number of passengers. A negative flow runs against its edge.

    The field points along the arrows, so that "forward" is downstream: ``fwd1`` reads the successors of a node and
    ``bwd1`` its predecessors. On the row (j, i) of the input the field is :math:`-f`, since the source j of an arrow
    lies behind its target i. Messages travel both ways, hence the reverse edges.

    Laws: linear in the flow; reversing all edges changes the sign; the sum over parallel edges is antisymmetric; its
    divergence is outflow less inflow. Edge cases: 0 on self-loops, which have no reverse; two antiparallel edges
    stay two edges either way, so that each node is a successor and a predecessor of the other.

    Shapes:
        ``edge_index`` [2, E] (or ``Graph`` or PyG ``Data``), ``flow`` [E, K] or [E]; see :class:`Orientation`.

    >>> chain = torch.tensor([[0, 1], [1, 2]])  # 0 -> 1 -> 2
    >>> oriented = orientation(chain)
    >>> oriented.edge_index.tolist(), oriented.field.tolist()
    ([[0, 1, 1, 2], [1, 2, 0, 1]], [-1.0, -1.0, 1.0, 1.0])
    >>> from dgn.fields import divergence
    >>> divergence(oriented.field, oriented.edge_index).tolist()
    [1.0, 0.0, -1.0]
    """
    graph = as_graph(edge_index, num_nodes)
    if flow is None:
        flow = torch.ones(graph.num_edges, device=graph.edge_index.device)
    check_rows("flow", flow, graph.num_edges, "edge")
    check_columns("flow", flow)
    loop = graph.source == graph.target
    flow = flow.masked_fill(loop.view(-1, *[1] * (flow.dim() - 1)), 0.0)
    reverse = (~loop).nonzero()[:, 0]
    return Orientation(
        torch.cat([graph.edge_index, graph.edge_index[:, reverse].flip(0)], dim=1),
        torch.cat([-flow, flow[reverse]]),
        torch.cat([torch.arange(graph.num_edges, device=reverse.device), reverse]),
    )


def phase_difference(potential: Tensor, edge_index: Any, batch: Tensor | None = None) -> Tensor:
    r"""The gradient of the phase of a complex potential: :math:`F_{ij} = \arg(\bar u_i u_j)`, in :math:`(-\pi, \pi)`.

    0 where the potential of an end vanishes (up to :math:`10^{-8}` times the largest magnitude of its column in its
    graph, or in that of ``batch``), and where the phases are equal or opposite, which is no direction.

    Laws: antisymmetric; the same for :math:`e^{i \alpha} u` with any :math:`\alpha`; conjugating u changes the sign;
    the gradient of :math:`\varphi` for :math:`u = e^{i \varphi}` with steps below half a turn; 0 for real potentials.

    Shapes:
        ``potential`` [N, K] or [N], complex, ``batch`` [N]; returns [E, K] or [E].

    >>> u = torch.polar(torch.ones(3), torch.tensor([0.0, 0.5, 3.0]))
    >>> phase_difference(u, torch.tensor([[1, 2, 0], [0, 1, 2]])).round(decimals=3).tolist()
    [0.5, 2.5, -3.0]
    """
    if not isinstance(potential, Tensor) or not potential.is_complex() or potential.dim() == 0:
        raise TypeError(
            "potential: expected a complex tensor [N, K] or [N], got "
            f"{getattr(potential, 'dtype', type(potential).__name__)}; the gradient of a real one is dgn.gradient"
        )
    graph = graph_of_nodes(edge_index, potential)
    size = potential.abs()
    check_rows("potential", size, graph.num_nodes, "node")
    owner = batch if batch is not None else graph.batch
    owner = graph.edge_index.new_zeros(graph.num_nodes) if owner is None else owner.long()
    largest = largest_by(size, owner, int(owner.max()) + 1 if len(owner) else 0)[owner]
    unit = torch.where(size > SIGNIFICANT * largest, torch.sgn(potential), 0.0)
    turn = unit[graph.target].conj() * unit[graph.source]
    return torch.where(turn.imag.abs() > OPPOSITE, turn.angle(), 0.0)
