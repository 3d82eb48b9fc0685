"""What surrounds a convolution in the published networks."""

from typing import Any

from torch import Tensor, nn

from dgn.aggregation import Weights
from dgn.graph import Graph, as_graph
from dgn.nn.conv import ConvParts, DGNConv, sum_parts
from dgn.nn.dropout import Dropout
from dgn.nn.edge_features import Edges, LowRankEdgeFeatures
from dgn.nn.fused.select import Route, layer_route
from dgn.nn.init import reset
from dgn.nn.linear import Linear
from dgn.nn.norm import BatchNorm, normalize_rows


class DGNLayer(nn.Module):
    """A convolution, graph-size norm, batch norm, ReLU, residual and dropout, in the published order.

    With towers, as published: norm and dropout come first, then a linear map that mixes the towers with a leaky ReLU,
    then the residual. The residual is left out where the widths differ.

    Shapes:
        ``x`` [N, in] to [N, out]; ``weights`` of ``conv.plan.compute_weights(edge_field, graph)``; ``graph_norm`` [N,
        1] the factor of the graph-size norm, or ``None``; ``node_mask`` [N, 1]: 0 for nodes that are padding.
    """

    def __init__(
        self,
        conv: DGNConv,
        dropout: float = 0.0,
        batch_norm: bool = True,
        residual: bool = True,
    ) -> None:
        super().__init__()
        self.conv = conv
        self.norm = BatchNorm(conv.out_channels) if batch_norm else None
        if self.norm is not None:
            self.norm.plain = conv.backend == "reference"
        self.dropout = Dropout(dropout)
        self.mix = Linear(conv.out_channels, conv.out_channels) if conv.towers > 1 else None
        self.residual = residual and conv.in_channels == conv.out_channels

    def reset_parameters(self) -> None:
        reset((self.conv, self.norm, self.mix))

    def forward(
        self,
        x: Tensor,
        edge_index: Any,
        weights: Weights | None = None,
        edge_attr: Edges = None,
        graph_norm: Tensor | None = None,
        node_mask: Tensor | None = None,
    ) -> Tensor:
        graph = as_graph(edge_index, x.size(0))
        if weights is None:
            weights = self.conv.plan.compute_weights(None, graph)
        fits = x.dim() == 2 and x.size(1) == self.conv.in_channels
        route = layer_route(x, self.conv, self.norm, weights, edge_attr) if fits else Route.PLAIN
        if route == Route.LAYER:
            return self._fused(x, graph, weights, edge_attr, graph_norm, node_mask)
        edge_attr = edge_attr.build() if isinstance(edge_attr, LowRankEdgeFeatures) else edge_attr
        parts = self.conv.parts(x, graph, weights, edge_attr)
        end = self.norm, self.dropout, graph_norm, node_mask
        fused = route == Route.EPILOGUE
        if self.mix is None:
            return epilogue(parts, *end, x if self.residual else None, fused=fused)
        return self._mixed(x, epilogue(parts, *end, relu=False, fused=fused))

    def _fused(
        self,
        x: Tensor,
        graph: Graph,
        weights: Weights,
        edge_attr: Edges,
        graph_norm: Tensor | None,
        node_mask: Tensor | None,
    ) -> Tensor:
        """The layer as one autograd function of Triton kernels."""
        from dgn.nn.fused.gpu_layer import fused_layer

        assert self.norm is not None
        arguments = x, self.conv, graph, weights, edge_attr, self.norm, self.dropout, graph_norm, node_mask
        if self.mix is None:
            return fused_layer(*arguments, residual=self.residual)
        return self._mixed(x, fused_layer(*arguments, relu=False, residual=False))

    def _mixed(self, x: Tensor, y: Tensor) -> Tensor:
        """Behind towers: a linear map that mixes them, and the residual."""
        assert self.mix is not None
        y = nn.functional.leaky_relu(self.mix(y))
        return x + y if self.residual else y


def epilogue(
    parts: ConvParts,
    norm: BatchNorm | None,
    dropout: Dropout,
    graph_norm: Tensor | None = None,
    node_mask: Tensor | None = None,
    residual: Tensor | None = None,
    relu: bool = True,
    fused: bool = False,
) -> Tensor:
    r"""Bring a convolution to the output of its layer.

    .. math:: \text{dropout}\Big(r_i + \text{relu}\Big(\text{norm}\Big(s_i \big(\textstyle\sum_s S_s y_{is} +
        y_i^{self} + b\big)\Big)\Big)\Big)

    ``graph_norm`` s, ``residual`` r and the ReLU may be left out. ``fused``: by three kernels each way, on a GPU in
    training (:func:`dgn.nn.fused.select.kernels_apply`).

    Shapes:
        ``parts`` see :class:`ConvParts`; ``graph_norm`` and ``node_mask`` [N, 1], ``residual`` [N, out]; returns [N,
        out].
    """
    if fused and norm is not None:
        from dgn.nn.fused.gpu_epilogue import fused_epilogue

        return fused_epilogue(parts, norm, dropout, graph_norm, node_mask, residual, relu)
    y = sum_parts(parts)
    y = y if graph_norm is None else y * graph_norm
    y = y if norm is None else normalize_rows(norm, y, node_mask)
    y = y.relu() if relu else y
    y = y if residual is None else y + residual
    return dropout(y) if dropout.training and dropout.p else y
