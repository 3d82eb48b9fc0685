"""The directional graph network: embedding, layers, readout, head."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Literal

import torch
from torch import Tensor, nn

from dgn.aggregation import Backend, Weights, make_plan
from dgn.graph import Graph
from dgn.nn.blocks.feed_forward import FeedForward
from dgn.nn.conv import DGNConv
from dgn.nn.encoders import CategoryEncoder
from dgn.nn.fused.select import Route, layer_route
from dgn.nn.graph_inputs import read_graph
from dgn.nn.head import Head, leave_to_pytorch
from dgn.nn.init import init_as_authors, reset
from dgn.nn.layer import DGNLayer, VirtualNode
from dgn.nn.linear import Linear
from dgn.nn.low_rank_edges import Edges, LowRankEdgeFeatures, is_low_rank
from dgn.nn.readout import DOUBLE_WIDTH, Readout, pool
from dgn.nn.structural_encoder import EdgeTypeEncoder, StructuralEncoder, read_structural_inputs
from dgn.nn.validation import check_options, check_width, read_scalers


class DGN(nn.Module):
    """A network of directional convolutions, as published.

    Args:
        node_encoder: maps node inputs to ``hidden`` channels: ``CategoryEncoder``, ``nn.Linear``, ...; a number of
            input channels stands for a linear map of them.
        hidden: width of the layers; ``last``: width behind the last one (default: the same).
        targets: number of outputs.
        edge_encoder: maps edge inputs to ``edge_dim`` channels; few categories and kinds stay tables.
        positional: add a linear map of the first so many potentials to the input (the baseline pos_k).
        size_norm: multiply by 1 / sqrt(nodes of the graph) before each batch norm.
        feed_forward: behind each layer, a perceptron so many times as wide as it (:class:`FeedForward`); 0 for none.
        inner_dropout: dropout inside these perceptrons; by default as in layers.
        structure: maps structural numbers to ``hidden`` channels, which are added to the input.
        readout: from nodes to graphs (:func:`dgn.nn.readout.pool`); ``"nodes"`` for one output per node.
        initialization: ``"pytorch"`` or ``"authors"`` (layers only).

    The other arguments are those of :class:`DGNConv` and :class:`DGNLayer`; each layer has a copy of a ``message`` that
    is a module. Weights of the field are computed once per call and shared by all layers.

    >>> import torch
    >>> from torch_geometric.data import Data
    >>> net = DGN(3, 16, targets=1, aggregators=["mean", "av1"], num_layers=2)
    >>> data = Data(x=torch.randn(2, 3), edge_index=torch.tensor([[0, 1], [1, 0]]), field=torch.ones(2, 1))
    >>> net(data).shape
    torch.Size([1, 1])
    """

    def __init__(
        self,
        node_encoder: nn.Module | int,
        hidden: int,
        targets: int = 1,
        num_layers: int = 4,
        last: int | None = None,
        aggregators: Sequence[str] = ("mean", "dx1"),
        scalers: Sequence[str] = ("identity",),
        delta: float | None = None,
        message: Literal["simple", "complex"] | nn.Module = "simple",
        edge_encoder: nn.Module | None = None,
        edge_dim: int | None = None,
        towers: int = 1,
        derivative: Literal["paper", "authors"] = "paper",
        dropout: float = 0.0,
        batch_norm: bool = True,
        residual: bool = True,
        size_norm: bool = True,
        virtual_node: bool = False,
        positional: int = 0,
        readout: Readout = "mean",
        initialization: Literal["pytorch", "authors"] = "pytorch",
        backend: Backend = "auto",
        feed_forward: int = 0,
        structure: StructuralEncoder | None = None,
        inner_dropout: float | None = None,
    ) -> None:
        super().__init__()
        check_options(readout, initialization, edge_encoder, edge_dim)
        last = hidden if last is None else last
        self.node_encoder = Linear(node_encoder, hidden) if isinstance(node_encoder, int) else node_encoder
        self.edge_encoder = edge_encoder
        self.positional = Linear(positional, hidden) if positional else None
        self.structure, self.hidden = structure, hidden
        self.edge_dim, self.size_norm, self.readout, self.initialization = edge_dim, size_norm, readout, initialization
        self.plan, (scalers, self.delta) = make_plan(aggregators), read_scalers(scalers, delta)
        widths = [hidden] * (num_layers - 1) + [last] * min(num_layers, 1)
        given = aggregators, scalers, self.delta, message, edge_dim, towers, derivative, backend
        around = dropout, batch_norm, residual
        self.layers = _modules(widths, lambda w: DGNLayer(DGNConv(hidden, w, *deepcopy(given)), *around))
        wide = widths if feed_forward else []
        inside = dropout if inner_dropout is None else inner_dropout
        self.feed_forwards = _modules(wide, lambda w: FeedForward(w, feed_forward, inside, batch_norm))
        between = widths[:-1] if virtual_node else []
        self.virtual_nodes = _modules(between, lambda w: VirtualNode(w, dropout, batch_norm))
        self.head = Head(2 * last if readout in DOUBLE_WIDTH else last, last, targets)
        leave_to_pytorch(self, backend == "reference")
        if initialization == "authors":
            init_as_authors(self.layers)

    def reset_parameters(self) -> None:
        reset([self.node_encoder, self.edge_encoder, self.positional, self.structure])
        reset([*self.layers, *self.feed_forwards, *self.virtual_nodes, *self.head])
        if self.initialization == "authors":
            init_as_authors(self.layers)

    def forward(
        self,
        x: Any,
        edge_index: Any = None,
        field: Tensor | None = None,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        potential: Tensor | None = None,
        num_graphs: int | None = None,
        weights: Weights | None = None,
        real: Tensor | None = None,
        gap: Tensor | None = None,
        structure: Tensor | None = None,
    ) -> Tensor:
        """Predict for a PyG ``Data`` or ``Batch`` with ``field`` (and ``potential``), or for its parts.

        ``weights`` of an earlier ``plan.compute_weights(field, graph, gap)`` save computing them again. ``real`` is 0
        for nodes that are padding: they enter no statistic. ``gap`` tells which directions form a group. ``structure``
        holds the numbers that a network with such an input reads.

        Shapes:
            ``x`` and ``edge_attr`` as the encoders take them, ``field`` [E, K], ``batch`` [N], ``potential`` [N, K],
            ``real`` [N, 1], ``gap`` [N, K], ``structure`` [N, F]; returns [G, targets], or [N, targets] with
            ``readout="nodes"``.
        """
        if not isinstance(x, Tensor):
            return self.forward_data(x)
        graph = read_graph(edge_index, x.size(0), batch, num_graphs)
        edges = self._edges(edge_attr, graph)  # first: what comes first has its gradient last, off the way back
        h = check_width(self.node_encoder(x), self.hidden)
        if self.positional is not None:
            h = h + self.positional(self._first(potential, self.positional.in_features).to(h.dtype))
        if self.structure is not None:
            h = h + self.structure(structure)
        if weights is None:
            weights = self.plan.compute_weights(None if field is None else field.to(h.dtype), graph, gap)
        size = graph.cached(f"size {h.dtype}", lambda: _size_factor(graph, h)) if self.size_norm else None
        state = h.new_zeros(graph.num_graphs, h.size(1)) if len(self.virtual_nodes) else None
        real_graphs = None if state is None else _filled(graph, h, real)
        for number, layer in enumerate(self.layers):
            h = layer(h, graph, weights, edges, size, real)
            if self.feed_forwards:
                h = self.feed_forwards[number](h, real)
            if state is not None and number < len(self.virtual_nodes):
                h, state = self.virtual_nodes[number](h, graph, state, real_graphs)
        return self.head(pool(self.readout, h, graph, potential))  # type: ignore[no-any-return]

    def _edges(self, edge_attr: Tensor | None, graph: Graph) -> Edges:
        """Edge features for the layers; edges of a network without edge features are not looked at."""
        if edge_attr is None or self.edge_dim is None:
            return None
        encoder = self.edge_encoder
        few = not isinstance(encoder, CategoryEncoder) or encoder.has_few_rows(len(edge_attr))
        if isinstance(encoder, CategoryEncoder | EdgeTypeEncoder) and few:
            table = encoder.as_table(edge_attr).sort(graph)
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

    def forward_data(self, data: Any) -> Tensor:
        """Predict for a PyG ``Data`` or ``Batch``."""
        if getattr(data, "x", None) is None:
            raise ValueError(f"data: expected node features in 'x', got {data}; set data.x")
        names = ("x", "edge_index", "field", "batch", "potential", "num_graphs", "gap")
        structure, edge_attr = read_structural_inputs(data, self.edge_encoder)
        given = {name: getattr(data, name, None) for name in names}
        return self(**given, edge_attr=edge_attr, structure=structure)  # type: ignore[no-any-return]

    @staticmethod
    def _first(potential: Tensor | None, wanted: int) -> Tensor:
        if potential is None or potential.size(1) < wanted:
            came = "None" if potential is None else f"{potential.size(1)}"
            raise ValueError(
                f"potential: expected at least {wanted} columns for the positional baseline, got {came}; add them with "
                f"dgn.transforms.AddDirections(k={wanted})"
            )
        return potential[:, :wanted]


def _modules(widths: Sequence[int], make: Callable[[int], nn.Module]) -> nn.ModuleList:
    return nn.ModuleList([make(width) for width in widths])


def _filled(graph: Graph, like: Tensor, real: Tensor | None) -> Tensor:
    """1 for graphs with nodes, and 0 for those that have none or padding only: they enter no statistic. [G, 1]"""
    size = graph.graph_size(like.dtype) if real is None else graph.sum_over_graph(real)
    return size.clamp(max=1)


def _size_factor(graph: Graph, like: Tensor) -> Tensor:
    """1 / sqrt(nodes of the graph) of each node, [N, 1]: kernels read one for each."""
    factor = graph.graph_size(like.dtype).rsqrt()
    return factor.repeat(graph.num_nodes, 1) if graph.batch is None else factor[graph.batch]
