"""What surrounds a convolution in the published networks."""

import torch
from torch import Tensor, nn

from dgn.aggregation import Weights
from dgn.graph import Graph
from dgn.nn.arguments import check_edges
from dgn.nn.aside import Beside, on
from dgn.nn.conv import DGNConv
from dgn.nn.cpu_layer import End, is_whole, run_layer
from dgn.nn.dense import Linear
from dgn.nn.dropout import Dropout
from dgn.nn.edges import EdgeTable
from dgn.nn.linear import MessageLinear
from dgn.nn.norm import BatchNorm
from dgn.nn.parameters import reset
from dgn.nn.tail import draw_kept, end_of_layer, finish, is_fused

WIDEST = 256  # channels up to which a layer is one function on a GPU: beyond, the library's products are faster
MOST_KINDS = 64  # of edges, for the same


class DGNLayer(nn.Module):
    """A convolution, graph-size norm, batch norm, ReLU, residual and dropout, in the published order.

    With towers, as published: norm and dropout come first, then a linear map that mixes the towers with a leaky ReLU,
    then the residual. The residual is left out where the widths differ.

    Shapes:
        ``x`` [N, in] to [N, out]; ``size`` [N, 1] the factor of the graph-size norm, or ``None``; ``real`` [N, 1]: 0
        for nodes that are padding.
    """

    def __init__(self, conv: DGNConv, dropout: float = 0.0, batch_norm: bool = True, residual: bool = True) -> None:
        super().__init__()
        self.conv = conv
        self.norm = BatchNorm(conv.out_channels) if batch_norm else None
        self.dropout = Dropout(dropout)
        self.mix = Linear(conv.out_channels, conv.out_channels) if conv.towers > 1 else None
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
        real: Tensor | None = None,
    ) -> Tensor:
        if weights is None:
            weights = self.conv.plan.compute_weights(None, graph)
        if self._is_whole(x, weights, edge_attr):
            return self._whole(x, graph, weights, edge_attr, size, real)
        if self.norm is not None and self.mix is None and is_whole(x, self.conv, self.norm, graph, weights, size, real):
            end = End(self.norm, size, self.residual)
            finished: Tensor = self.dropout(run_layer(x, self.conv, graph, weights, edge_attr, end))
            return finished
        products = self.conv.products(x, graph, weights, edge_attr)
        if self.mix is None:
            return finish(products, self.norm, self.dropout, size, real, x if self.residual else None)
        y = nn.functional.leaky_relu(self.mix(finish(products, self.norm, self.dropout, size, real, relu=False)))
        return x + y if self.residual else y

    def _is_whole(self, x: Tensor, weights: Weights, edge_attr: Tensor | EdgeTable | None) -> bool:
        """Whether the layer is one function: on a GPU in training, linear messages, one tower, edges in few kinds."""
        conv, learned = self.conv, torch.is_grad_enabled() and any(part.requires_grad for part in weights)
        if self.norm is None or self.mix is not None or learned or conv.backend not in ("auto", "triton"):
            return False
        linear = conv.message is None or isinstance(conv.message, MessageLinear)
        few = edge_attr is None or (isinstance(edge_attr, EdgeTable) and len(edge_attr.table) <= MOST_KINDS)
        narrow = max(conv.in_channels, conv.out_channels) <= WIDEST
        return linear and few and narrow and x.dim() == 2 and x.size(1) == conv.in_channels and is_fused(x, self.norm)

    def _whole(
        self,
        x: Tensor,
        graph: Graph,
        weights: Weights,
        edge_attr: Tensor | EdgeTable | None,
        size: Tensor | None,
        real: Tensor | None,
    ) -> Tensor:
        from dgn.nn.gpu_layer import Maps, Setting, whole_layer

        conv, message = self.conv, self.conv.message
        check_edges(conv.edge_dim, edge_attr, graph)
        assert self.norm is not None
        edges = edge_attr.sort(graph) if isinstance(edge_attr, EdgeTable) else None
        edges = edges.gather() if edges is not None and edges.token is None else edges
        ends = bias = edge = own = None
        if isinstance(message, MessageLinear):
            assert conv.update.own is not None
            ends, bias, own = message.ends.flatten(0, 1), message.bias.flatten(), conv.update.own.flatten(0, 1)
            edge = None if message.edge is None else message.edge.flatten(0, 1)
        update, norm = conv.update, self.norm
        scaled, offset = update.scaled.flatten(0, 1), update.bias.flatten()
        maps = Maps(ends, bias, edge, own, scaled, offset, norm.weight, norm.bias)
        beside = Beside() if edges is None or edges.beside is None else edges.beside
        with on(beside.side):
            kept = draw_kept(x.size(0), norm, self.dropout)
        setting = Setting(
            conv.plan,
            graph,
            weights,
            None if edges is None else edges.table.detach(),
            None if edges is None else edges.row,
            None if conv.scalers == ("identity",) else conv._scalers(graph, x.dtype),
            conv.derivative == "authors",
            self.residual,
            end_of_layer(norm, size, real, True, kept, self.dropout.p),
            beside,
        )
        return whole_layer(x, maps, None if edges is None else edges.token, setting)


class VirtualNode(nn.Module):
    """A node that talks to all nodes of its graph between two layers.

    Shapes:
        ``x`` [N, C], ``state`` [G, C], ``real`` [G, 1]: 0 for graphs that are padding; returns new ``x`` and ``state``.
    """

    def __init__(self, channels: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = Linear(channels, channels)
        self.norm = BatchNorm(channels)
        self.dropout = Dropout(dropout)

    def reset_parameters(self) -> None:
        reset((self.linear, self.norm))

    def forward(self, x: Tensor, graph: Graph, state: Tensor, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
        gathered = self.linear(state + graph.sum_over_graph(x))
        state = state + self.dropout(self.norm(gathered, real).relu())
        return x + (state[graph.batch] if graph.batch is not None else state), state
