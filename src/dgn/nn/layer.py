"""What surrounds a convolution in the published networks."""

from torch import Tensor, nn

from dgn.aggregation import Weights
from dgn.graph import Graph
from dgn.nn.conv import DGNConv
from dgn.nn.edges import EdgeTable
from dgn.nn.parameters import reset


class DGNLayer(nn.Module):
    """A convolution, graph-size norm, batch norm, ReLU, residual and dropout, in the published order.

    With towers, as published: norm and dropout come first, then a linear map that mixes the towers with a leaky ReLU,
    then the residual. The residual is left out where the widths differ.

    Shapes:
        ``x`` [N, in] to [N, out]; ``size`` [N, 1] the factor of the graph-size norm, or ``None``.
    """

    def __init__(self, conv: DGNConv, dropout: float = 0.0, batch_norm: bool = True, residual: bool = True) -> None:
        super().__init__()
        self.conv = conv
        self.norm = nn.BatchNorm1d(conv.out_channels) if batch_norm else nn.Identity()
        self.dropout = nn.Dropout(dropout)
        self.mix = nn.Linear(conv.out_channels, conv.out_channels) if conv.towers > 1 else None
        self.residual = residual and conv.in_channels == conv.out_channels

    def reset_parameters(self) -> None:
        reset((self.conv, self.norm, self.mix))

    def forward(
        self,
        x: Tensor,
        graph: Graph,
        weights: Weights | None = None,
        edge_attr: Tensor | EdgeTable | None = None,
        size: Tensor | None = None,
    ) -> Tensor:
        y = self.conv(x, graph, edge_attr=edge_attr, weights=weights)
        y = self.norm(y if size is None else y * size)
        if self.mix is None:
            y = y.relu()
            out: Tensor = self.dropout(x + y if self.residual else y)
            return out
        y = nn.functional.leaky_relu(self.mix(self.dropout(y)))
        return x + y if self.residual else y


class VirtualNode(nn.Module):
    """A node that talks to all nodes of its graph between two layers.

    Shapes:
        ``x`` [N, C], ``batch`` [N], ``state`` [G, C]; returns new ``x`` and ``state``.
    """

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = nn.Linear(channels, channels)
        self.norm = nn.BatchNorm1d(channels)
        self.dropout = nn.Dropout(dropout)

    def reset_parameters(self) -> None:
        reset((self.linear, self.norm))

    def forward(self, x: Tensor, batch: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        gathered = state.index_add(0, batch, x)
        state = state + self.dropout(self.norm(self.linear(gathered)).relu())
        return x + state[batch], state
