"""The directional graph network: embedding, layers, readout, head."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dgn.aggregation import Backend, Weights
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_directions
from dgn.nn.blocks.feed_forward import FeedForward
from dgn.nn.blocks.virtual_node import VirtualNode
from dgn.nn.conv import DGNConv
from dgn.nn.edge_features import Edges, LowRankEdgeFeatures, is_low_rank
from dgn.nn.encoders import CategoryEncoder, EdgeTypeEncoder, GraphEncoder, StructuralEncoder, read_structural_inputs
from dgn.nn.fused.select import Route, layer_route
from dgn.nn.init import init_as_authors, reset
from dgn.nn.inputs import read_scalers, refuse_beside_data, refuse_positional
from dgn.nn.layer import DGNLayer
from dgn.nn.linear import Linear
from dgn.nn.norm import BatchNorm
from dgn.nn.readout import DOUBLE_WIDTH, Head, pool
from dgn.nn.settings import NetworkSettings

Returns = Literal["prediction", "embedding", "node-embedding"]


class DGN(nn.Module):
    """A network of directional convolutions, as published: embedding, layers, readout, head.

    Args:
        node_encoder: maps node inputs to ``settings.hidden`` channels: ``CategoryEncoder``, ``nn.Linear``, ...; a
            number of input channels stands for a linear map of them.
        settings: width, depth, aggregators and all else that makes a network (:class:`NetworkSettings`).
        out_channels: number of outputs.
        delta: mean of log(degree + 1) over the training nodes, which scalers other than identity need.
        edge_encoder: maps edge inputs to ``settings.edge_dim`` channels; few categories and edge types stay tables.
        structural_encoder: maps structural encodings to ``settings.hidden`` channels, which are added to the input.
        graph_encoder: maps features of graphs to channels that the head reads beside the readout.
        message: a module in the place of ``settings.message``; each layer has a copy of it.
        backend: as of :class:`DGNConv`.

    Weights of the field are computed once per call and shared by all layers.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> net = DGN(3, NetworkSettings(hidden=16, aggregators=("mean", "av1"), num_layers=2))
    >>> data = Data(x=torch.randn(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), edge_field=torch.ones(2, 1))
    >>> net(data).shape
    torch.Size([1, 1])
    """

    def __init__(
        self,
        node_encoder: nn.Module | int,
        settings: NetworkSettings,
        out_channels: int = 1,
        *,
        delta: float | None = None,
        edge_encoder: nn.Module | None = None,
        structural_encoder: StructuralEncoder | None = None,
        graph_encoder: GraphEncoder | None = None,
        message: nn.Module | None = None,
        backend: Backend = "auto",
    ) -> None:
        super().__init__()
        if edge_encoder is not None and settings.edge_dim is None:
            raise ValueError("edge_dim: expected the width that edge_encoder gives, got None; set it in the settings")
        if graph_encoder is not None and settings.readout == "nodes":
            raise ValueError("graph_encoder: expected none for predictions of nodes, got one; give nodes the features")
        hidden, last = settings.hidden, settings.last or settings.hidden
        self.settings = settings
        self.node_encoder = Linear(node_encoder, hidden) if isinstance(node_encoder, int) else node_encoder
        self.edge_encoder, self.structure, self.graph_encoder = edge_encoder, structural_encoder, graph_encoder
        vectors = settings.num_eigenvector_features
        self.positional = Linear(vectors, hidden) if vectors else None
        self.plan, (_, self.delta) = settings.plan, read_scalers(settings.scalers, delta)
        widths = [hidden] * (settings.num_layers - 1) + [last] * min(settings.num_layers, 1)
        self.layers = _modules(widths, lambda width: self._layer(width, message, backend))
        inside = settings.dropout if settings.ffn_dropout is None else settings.ffn_dropout
        expansion, around = settings.ffn_expansion, (settings.dropout, settings.batch_norm)
        self.feed_forwards = _modules(
            widths if expansion else [], lambda width: FeedForward(width, expansion, inside, settings.batch_norm)
        )
        between = widths[:-1] if settings.virtual_node else []
        self.virtual_nodes = _modules(between, lambda width: VirtualNode(width, *around))
        pooled = 2 * last if settings.readout in DOUBLE_WIDTH else last
        beside = 0 if graph_encoder is None else graph_encoder.linear.out_features
        self.head = Head(pooled + beside, last, out_channels, settings.head_layers)
        for part in self.modules():  # PyTorch can differentiate it twice
            if isinstance(part, BatchNorm):
                part.plain = backend == "reference"
        if settings.initialization == "authors":
            init_as_authors(self.layers)

    def _layer(self, width: int, message: nn.Module | None, backend: Backend) -> DGNLayer:
        """A layer with ``width`` output channels."""
        settings = self.settings
        conv = DGNConv(
            settings.hidden,
            width,
            settings.aggregators,
            settings.scalers,
            self.delta,
            settings.message if message is None else deepcopy(message),
            settings.edge_dim,
            settings.towers,
            settings.dx_reference,
            backend,
        )
        return DGNLayer(conv, settings.dropout, settings.batch_norm, settings.residual)

    def reset_parameters(self) -> None:
        reset([self.node_encoder, self.edge_encoder, self.positional, self.structure, self.graph_encoder])
        reset([*self.layers, *self.feed_forwards, *self.virtual_nodes, *self.head])
        if self.settings.initialization == "authors":
            init_as_authors(self.layers)

    def forward(
        self,
        x: Any,
        edge_index: Any = None,
        *positional: object,
        edge_field: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        node_potential: Tensor | None = None,
        num_graphs: int | None = None,
        weights: Weights | None = None,
        node_mask: Tensor | None = None,
        gap: Tensor | None = None,
        structure: Tensor | None = None,
        graph_attr: Tensor | None = None,
        returns: Returns = "prediction",
    ) -> Tensor:
        """Predict for a PyG ``Data`` or ``Batch`` with ``edge_field`` (and ``node_potential``), or for its parts.

        ``weights`` of an earlier ``plan.compute_weights(edge_field, graph, gap)`` save computing them again.
        ``node_mask`` is 0 for padding nodes, which enter no statistic. ``gap`` tells which directions form a group.
        ``structure`` and ``graph_attr`` hold the numbers of nodes and of graphs that a network with such inputs reads.
        ``returns="embedding"`` gives the readout, of graphs or of nodes as the prediction; ``"node-embedding"`` the
        features of nodes before it. A field that does not fit the ``node_potential`` of the same data is refused,
        unless the network reads that potential as an input of its own.

        Shapes:
            ``x`` and ``edge_attr`` as the encoders take them, ``edge_field`` [E, K], ``batch`` [N],
            ``node_potential`` [N, K], ``node_mask`` [N, 1], ``gap`` [N, K], ``structure`` [N, F], ``graph_attr`` [G,
            F']; returns [G, out_channels], or [N, out_channels] with ``readout="nodes"``.
        """
        if positional:
            refuse_positional(type(self).__name__, positional)
        if not isinstance(x, Tensor):
            beside = {"edge_index": edge_index, "edge_field": edge_field, "edge_attr": edge_attr, "batch": batch}
            beside |= {"node_potential": node_potential, "num_graphs": num_graphs, "weights": weights}
            beside |= {"graph_attr": graph_attr}
            return self.forward_data(x, returns, **beside, node_mask=node_mask, gap=gap, structure=structure)
        graph = as_graph(edge_index, x.size(0), batch, num_graphs)
        edges = self._edges(edge_attr, graph)  # what comes first has its gradient last, outside the backward pass
        h = self._nodes(x, node_potential, structure)
        if weights is None:
            weights = self.plan.cached_weights(edge_field, graph, gap, h.dtype)
        graph_norm = graph.graph_norm(h.dtype) if self.settings.size_norm else None
        state = h.new_zeros(graph.num_graphs, h.size(1)) if len(self.virtual_nodes) else None
        graph_mask = None if state is None else _graph_mask(graph, h, node_mask)
        for index, layer in enumerate(self.layers):
            h = layer(h, graph, weights, edges, graph_norm, node_mask)
            if self.feed_forwards:
                h = self.feed_forwards[index](h, node_mask)
            if state is not None and index < len(self.virtual_nodes):
                h, state = self.virtual_nodes[index](h, graph, state, graph_mask)
        if returns == "node-embedding":
            return h
        pooled = pool(self.settings.readout, h, graph, node_potential)
        if returns == "embedding":
            return pooled
        if self.graph_encoder is not None:
            pooled = torch.cat([pooled, self.graph_encoder(graph_attr)], dim=1)
        return self.head(pooled)  # type: ignore[no-any-return]

    def _nodes(self, x: Tensor, potential: Tensor | None, structure: Tensor | None) -> Tensor:
        """Features of the nodes for the first layer."""
        h: Tensor = self.node_encoder(x)
        if h.size(-1) != self.settings.hidden:
            raise ValueError(
                f"node_encoder: expected one that gives {self.settings.hidden} channels, got {h.size(-1)}; make it so "
                "wide"
            )
        if self.positional is not None:
            h = h + self.positional(self._first(potential, self.positional.in_features).to(h.dtype))
        return h if self.structure is None else h + self.structure(structure)

    def _edges(self, edge_attr: Tensor | None, graph: Graph) -> Edges:
        """Edge features for the layers; edges of a network without edge features are not looked at."""
        if edge_attr is None or self.settings.edge_dim is None:
            return None
        encoder = self.edge_encoder
        few = not isinstance(encoder, CategoryEncoder) or encoder.has_few_rows(len(edge_attr))
        if isinstance(encoder, (CategoryEncoder, EdgeTypeEncoder)) and few:
            table = encoder.as_table(edge_attr, graph.parts.sorted_by_target)
            table = table if table.sorted_by_target else table.sort(graph)
            together = edge_attr.is_cuda and self.training and not torch.compiler.is_compiling()
            return table.gather() if together else table
        if isinstance(encoder, nn.Linear) and self._reads_numbers(edge_attr, graph):
            return LowRankEdgeFeatures.of(encoder, edge_attr, graph)
        return edge_attr if encoder is None else encoder(edge_attr)

    def _reads_numbers(self, edge_attr: Tensor, graph: Graph) -> bool:
        """Whether edges have few numbers and all layers can put features together from them, each as one function."""
        layers = [layer for layer in self.layers if isinstance(layer, DGNLayer)]
        ours = len(layers) == len(self.layers)
        fused = ours and all(layer_route(edge_attr, layer.conv, layer.norm) == Route.LAYER for layer in layers)
        return fused and is_low_rank(self.edge_encoder, edge_attr, graph)

    def forward_data(self, data: Any, returns: Returns = "prediction", **beside: object) -> Tensor:
        """Predict for a PyG ``Data`` or ``Batch``, which holds all inputs: none may be given beside it."""
        refuse_beside_data(type(self).__name__, beside)
        if getattr(data, "x", None) is None:
            raise ValueError(f"data: expected node features in 'x', got {data}; set data.x")
        names = ("x", "edge_index", "edge_field", "batch", "node_potential", "num_graphs", "gap", "graph_attr")
        structure, edge_attr = read_structural_inputs(data, self.edge_encoder)
        attributes = {name: getattr(data, name, None) for name in names}
        field, potential = attributes["edge_field"], attributes["node_potential"]
        own = self.settings.reads_potential  # the potential is an input; the field may be another
        if self.plan.num_directions and field is not None and potential is not None and not own:
            check_directions(field, potential, data.edge_index)
        return self(**attributes, edge_attr=edge_attr, structure=structure, returns=returns)  # type: ignore[no-any-return]

    @staticmethod
    def _first(potential: Tensor | None, wanted: int) -> Tensor:
        if potential is None or potential.size(1) < wanted:
            came = "None" if potential is None else f"{potential.size(1)}"
            raise ValueError(
                f"node_potential: expected at least {wanted} columns for the positional baseline, got {came}; add "
                f"them with dgn.transforms.AddDirections(k={wanted})"
            )
        return potential[:, :wanted]


def _modules(widths: Sequence[int], make: Callable[[int], nn.Module]) -> nn.ModuleList:
    return nn.ModuleList([make(width) for width in widths])


def _graph_mask(graph: Graph, like: Tensor, node_mask: Tensor | None) -> Tensor:
    """1 for graphs with nodes, and 0 for those that have none or padding only: they enter no statistic. [G, 1]"""
    size = graph.graph_size(like.dtype) if node_mask is None else graph.sum_over_graph(node_mask)
    return size.clamp(max=1)
