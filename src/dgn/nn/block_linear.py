"""Linear maps of a convolution, their matrices kept in the pieces that are multiplied."""

import math

import torch
from torch import Tensor, nn

from dgn.aggregation import Messages
from dgn.graph import Graph
from dgn.nn.edge_features import EdgeTable
from dgn.nn.linear import add_bias, multiply


class BlockLinear(nn.Module):
    r"""One linear map per tower whose matrix is kept in pieces: :math:`y_t = x_t W_t^\top + b_t`.

    With one tower it has the parameters of ``nn.Linear``, and every tower is initialised like one. ``weight`` joins
    the pieces to the matrix as one writes it down, for those who want to read it.

    Shapes:
        ``weight`` [T, out, in], ``bias`` [T, out].
    """

    def __init__(self, in_channels: int, out_channels: int, towers: int) -> None:
        super().__init__()
        self.in_channels, self.out_channels, self.towers = in_channels, out_channels, towers
        self.bias = nn.Parameter(torch.empty(towers, out_channels))

    @property
    def weight(self) -> Tensor:
        raise NotImplementedError

    def initialize(self, bound: float, bias_bound: float) -> None:
        """Uniform numbers within the bounds."""
        for name, piece in self.named_parameters():
            limit = bias_bound if name == "bias" else bound
            nn.init.uniform_(piece, -limit, limit)

    def reset_parameters(self) -> None:
        bound = 1 / math.sqrt(self.in_channels) if self.in_channels else 0.0
        self.initialize(bound, bound)

    def extra_repr(self) -> str:
        return f"{self.in_channels}, {self.out_channels}, towers={self.towers}"


class MessageLinear(BlockLinear):
    """The map of a message :math:`[x_j, x_i, e_{ji}]`: the two ends, and the edge.

    Shapes:
        ``ends`` [T, 2 w, w], rows of the source above those of the target; ``edge`` [T, w, D] or ``None``.
    """

    def __init__(self, width: int, edge_dim: int = 0, towers: int = 1) -> None:
        super().__init__(2 * width + edge_dim, width, towers)
        self.ends = nn.Parameter(torch.empty(towers, 2 * width, width))
        self.edge = nn.Parameter(torch.empty(towers, width, edge_dim)) if edge_dim else None
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:
        return torch.cat([*self.ends.chunk(2, dim=1), *([] if self.edge is None else [self.edge])], dim=2)

    def parts(self, x: Tensor, graph: Graph, edge_attr: Tensor | EdgeTable | None) -> Messages:
        """The messages of node features [N, T w], in parts: those of both ends from one product, and that of edges."""
        source, target = grouped_linear(x.view(x.size(0), self.towers, self.out_channels), self.ends).chunk(2, dim=2)
        both = Messages(source.reshape(x.shape), add_bias(target.reshape(x.shape), self.bias.flatten()))
        if edge_attr is None or self.edge is None:
            return both
        features = edge_attr.table if isinstance(edge_attr, EdgeTable) else edge_attr
        table = multiply(features, self.edge.flatten(0, 1)).to(x.dtype)
        return both._replace(table=table, row=edge_attr.sort(graph).row if isinstance(edge_attr, EdgeTable) else None)


class UpdateLinear(BlockLinear):
    """The map of an update: of the node itself, and of what was aggregated, once per degree scaler.

    Shapes:
        ``own`` [T, out, w] or ``None``; ``scaled`` [T, scalers * out, aggregators * w].
    """

    def __init__(self, own: int, aggregated: int, scalers: int, out_channels: int, towers: int = 1) -> None:
        super().__init__(own + scalers * aggregated, out_channels, towers)
        self.own = nn.Parameter(torch.empty(towers, out_channels, own)) if own else None
        self.scaled = nn.Parameter(torch.empty(towers, scalers * out_channels, aggregated))
        self.reset_parameters()

    @property
    def weight(self) -> Tensor:
        scaled = self.scaled.chunk(self.scaled.size(1) // self.out_channels, dim=1)
        return torch.cat([*([] if self.own is None else [self.own]), *scaled], dim=2)


def grouped_linear(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply each tower's slice by its own matrix: ``[N, T, in] x [T, out, in] -> [N, T, out]``."""
    if weight.size(0) == 1:
        return multiply(x.flatten(1), weight.flatten(0, 1))[:, None]
    return multiply(x, weight)
