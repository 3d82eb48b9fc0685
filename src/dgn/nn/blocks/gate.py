"""A gate on every message: both ends and the edge decide how much of it passes."""

from torch import Tensor

from dgn.aggregation import Messages
from dgn.graph import Graph
from dgn.nn.fused.edge_gather import build_messages


def gate_messages(messages: Messages, gate: Messages, graph: Graph, node: Tensor | None = None) -> Messages:
    r"""Messages times their gates, channel by channel.

    .. math:: m_{ij}' = \sigma(g_{ij}) \odot m_{ij}, \qquad g_{ij} = P x_j + Q x_i + R e_{ij} + c

    Not in the paper. The linear parts of :math:`g` are those of linear messages, made on the nodes. A product of two
    such sums is none: gated messages are built, edge by edge. ``node`` is what stands for the node itself in a
    derivative; by default its own message without an edge, times its own gate, :math:`\sigma(g_{ii}) \odot m_{ii}`, so
    that a constant with constant gates still has the derivative 0.

    Laws: a gate of 0 lets half of a message pass; large ones all of it, very negative ones nothing.

    Shapes:
        see :class:`dgn.aggregation.Messages`; ``node`` [N, C].

    >>> import dgn, torch
    >>> edge = dgn.as_graph(torch.tensor([[0], [1]]))
    >>> x = torch.tensor([[4.0], [0.0]])
    >>> gate_messages(Messages(source=x), Messages(source=0 * x, target=0 * x), edge).table.tolist()
    [[2.0]]
    """
    built = build_messages(messages, graph) * build_messages(gate, graph).sigmoid()
    itself = messages.of_node() * gate.of_node().sigmoid() if node is None else node
    return Messages(table=built, node=itself)
