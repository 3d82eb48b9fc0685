"""Edges with a state of their own, which both ends change between two layers."""

from torch import Tensor, nn

from dgn.graph import Graph
from dgn.nn.conv_parts import Products
from dgn.nn.dropout import Dropout
from dgn.nn.fused.edge_gather import to_edges
from dgn.nn.fused.epilogue import finish
from dgn.nn.init import reset
from dgn.nn.linear import Linear, multiply
from dgn.nn.norm import BatchNorm


class EdgeUpdate(nn.Module):
    r"""What an edge learns from its ends.

    .. math:: e_{ij}' = e_{ij} + \text{dropout}(\text{relu}(\text{norm}(P x_j + Q x_i + R e_{ij} + c)))

    Not in the paper. The maps P and Q are applied to nodes, R to edges. The norm goes over all edges of the batch;
    those that end in a node of padding enter no statistic.

    Shapes:
        ``edges`` e [E, D] in the order of ``edge_index``, ``x`` [N, C], ``real`` [N, 1]: 0 for nodes that are padding;
        returns [E, D].

    >>> import dgn, torch
    >>> path = dgn.as_graph(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]))
    >>> EdgeUpdate(8, 4)(torch.randn(4, 4), torch.randn(3, 8), path).shape
    torch.Size([4, 4])
    """

    def __init__(self, channels: int, edge_dim: int, dropout: float = 0.0, batch_norm: bool = True) -> None:
        super().__init__()
        self.ends = Linear(channels, 2 * edge_dim, bias=False)
        self.edge = Linear(edge_dim, edge_dim)
        self.norm = BatchNorm(edge_dim) if batch_norm else None
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        reset((self.ends, self.edge, self.norm))

    def forward(self, edges: Tensor, x: Tensor, graph: Graph, real: Tensor | None = None) -> Tensor:
        source, target = self.ends(x).chunk(2, dim=1)
        ends, own = to_edges(source, target, graph), multiply(edges, self.edge.weight)
        products = Products(ends[:, None, None], own, None, self.edge.bias[None])
        return edges + finish(products, self.norm, self.dropout, real=_real_edges(x, graph, real))


def _real_edges(x: Tensor, graph: Graph, real: Tensor | None) -> Tensor | None:
    """1 for edges that are real, [E, 1]. Batch norm has to be told which they are also where there is one or none."""
    if real is not None:
        return real[graph.target]
    return None if graph.num_edges > 1 else x.new_ones(graph.num_edges, 1)
