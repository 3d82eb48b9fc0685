"""A virtual node, joined to all nodes of its graph."""

from torch import Tensor, nn

from dgn.graph import Graph
from dgn.nn.dropout import Dropout
from dgn.nn.init import reset
from dgn.nn.linear import Linear
from dgn.nn.norm import BatchNorm, normalize_rows


class VirtualNode(nn.Module):
    """A node that talks to all nodes of its graph between two layers.

    Shapes:
        ``x`` [N, C], ``state`` [G, C], ``graph_mask`` [G, 1]: 0 for graphs that are padding; returns new ``x`` and
        ``state``.
    """

    def __init__(self, channels: int, dropout: float = 0.0, batch_norm: bool = True) -> None:
        super().__init__()
        self.linear = Linear(channels, channels)
        self.norm = BatchNorm(channels) if batch_norm else None
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        reset((self.linear, self.norm))

    def forward(
        self, x: Tensor, graph: Graph, state: Tensor, graph_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        gathered = self.linear(state + graph.sum_over_graph(x))
        gathered = gathered if self.norm is None else normalize_rows(self.norm, gathered, graph_mask)
        state = state + self.dropout(gathered.relu())
        return x + (state[graph.batch] if graph.batch is not None else state), state
