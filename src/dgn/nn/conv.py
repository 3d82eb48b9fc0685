"""The directional graph convolution."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from dgn.aggregation import BACKENDS, Backend, Messages, ScalerKey, Weights, degree_scalers, make_plan
from dgn.aggregation.dispatch import aggregate_rows
from dgn.aggregation.scalers import graph_scalers
from dgn.graph import Graph, as_graph, gather_rows
from dgn.graph.checks import check_option
from dgn.nn.edge_features import Edges, EdgeTable, LowRankEdgeFeatures
from dgn.nn.fused.select import conv_is_fused, update_by_degree_pays
from dgn.nn.init import reset
from dgn.nn.inputs import (
    check_arguments,
    count_targets,
    infer_widths,
    read_bipartite,
    read_scalers,
    refuse_positional,
    refuse_weights,
)
from dgn.nn.linear import Linear, MessageLinear, UpdateLinear, add_bias, grouped_linear, multiply, update_by_degree

Features = Tensor | tuple[Tensor, Tensor | None]


class ConvParts(NamedTuple):
    """A convolution before its last sum, :func:`sum_parts`: over degree scalers, the node's own term and the bias.

    Shapes:
        ``scaled_out`` [N, T, S, out / T], ``self_out`` [N, out] or ``None``, ``scale`` [N, S] or ``None``, ``bias``
        [T, out / T].
    """

    scaled_out: Tensor
    self_out: Tensor | None
    scale: Tensor | None
    bias: Tensor


class DGNConv(MessagePassing):  # type: ignore[misc]  # PyG is untyped
    r"""Directional graph convolution (section 3).

    .. math::
        \text{simple:} \quad x_i' = U\Big(\bigoplus_{(j,i)} x_j\Big), \qquad
        \text{complex:} \quad x_i' = U\Big(x_i, \bigoplus_{(j,i)} M(x_i, x_j, e_{ji})\Big)

    :math:`\bigoplus` concatenates the aggregators, each multiplied by each degree scaler; M and U are linear. Messages
    are never built: :math:`M = A x_j + B x_i + C e_{ji} + b` is aggregated from its parts, and a scaler, one number per
    node, is applied behind U.

    A ``MessagePassing`` of PyG, so that explainers, ``to_hetero`` and ``summary`` recognise it; it does not call
    ``propagate``, whose hooks do not run. In an explanation, and with ``edge_weight``, messages are built edge by edge.

    Args:
        in_channels: a pair of widths if sources and targets have different ones, of which those of sources are first
            mapped to those of targets; -1 takes them from the first input.
        out_channels: width of the output.
        aggregators: names such as ``"mean"``, ``"max"``, ``"av1"``, ``"dx2-signed"`` (docs/aggregators.md).
        scalers: of ``"identity"``, ``"amplification"``, ``"attenuation"``.
        delta: mean of log(degree + 1) over the training nodes (:func:`dgn.average_log_degree`), which scalers other
            than identity need.
        message: ``"simple"``, ``"complex"``, or a module that maps ``[x_j, x_i, e_ji]`` to ``in_channels``.
        edge_dim: width of edge features, for complex messages.
        towers: split the channels into this many independent convolutions.
        dx_reference: what dx subtracts in complex messages: ``"node"``, the node's features, as in the code behind the
            published numbers; ``"message"``, the node's message to itself, as in B_dx applied to messages.
        backend: of the aggregation: ``"reference"`` (PyTorch), ``"cpu"`` (Numba), ``"triton"``, or ``"auto"``, which
            chooses by device, dtype and size (docs/kernels.md).

    Shapes:
        ``x`` [N, in_channels], or a pair of sources and targets, of which the targets may be ``None`` where nothing
        reads them; ``edge_field`` [E, K]; ``edge_attr`` [E, edge_dim]; ``edge_weight`` [E], factors of the messages;
        ``gap`` [N, K], of the targets, for groups of directions; returns [N, out_channels].

    >>> conv = DGNConv(8, 16, aggregators=["mean", "dx1"])
    >>> edge_index = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> conv(torch.randn(3, 8), edge_index, edge_field=torch.tensor([[-1.0], [1.0], [-1.0], [1.0]])).shape
    torch.Size([3, 16])
    """

    def __init__(
        self,
        in_channels: int | tuple[int, int],
        out_channels: int,
        aggregators: Sequence[str] = ("mean", "dx1"),
        scalers: Sequence[str] = ("identity",),
        delta: float | None = None,
        message: Literal["simple", "complex"] | nn.Module = "simple",
        edge_dim: int | None = None,
        towers: int = 1,
        dx_reference: Literal["node", "message"] = "node",
        backend: Backend = "auto",
    ) -> None:
        super().__init__(aggr=None)
        self.scalers, self.delta = read_scalers(scalers, delta)
        widths = in_channels if isinstance(in_channels, tuple) else (in_channels, in_channels)
        for width in (width for width in widths if width != -1):
            check_arguments(width, out_channels, message, edge_dim, towers if width == widths[1] else 1)
        check_option("dx_reference", dx_reference, ("node", "message"))
        check_option("backend", backend, BACKENDS)
        self.in_channels, self.out_channels, self.edge_dim, self.towers = widths[1], out_channels, edge_dim, towers
        self.plan = make_plan(aggregators)
        self.dx_reference, self.backend = dx_reference, backend
        self.message_kind, self.widths = "module" if isinstance(message, nn.Module) else message, widths
        self._modules |= {"message": message if isinstance(message, nn.Module) else None, "update": None}
        self.source_map: Linear | None = None
        if -1 not in widths:
            self._build(widths)

    def _build(self, widths: tuple[int, int]) -> None:
        """Make the parameters for sources and targets of these widths."""
        source, target = widths
        check_arguments(target, self.out_channels, self.message_kind, self.edge_dim, self.towers)
        self.in_channels, self.widths, width = target, widths, target // self.towers
        if self.message_kind == "complex":
            self._modules["message"] = MessageLinear(width, self.edge_dim or 0, self.towers)
        self_out = 0 if self.message is None else width
        inputs, out = len(self.plan) * width, self.out_channels // self.towers
        self._modules["update"] = UpdateLinear(self_out, inputs, len(self.scalers), out, self.towers)
        if source != target:
            self.source_map = Linear(source, target)

    # Submodules have the names of methods of PyG's class, which would hide them.
    @property
    def message(self) -> Any:
        """The message function: a module, or ``None`` for simple messages."""
        return self._modules["message"] if "message" in self._modules else super().message

    @property
    def update(self) -> Any:
        """The update function."""
        return self._modules["update"] if "update" in self._modules else super().update

    def reset_parameters(self) -> None:
        reset((self.message, self.update, self.source_map))

    def forward(
        self,
        x: Features,
        edge_index: Any,
        *positional: object,
        edge_field: Tensor | None = None,
        edge_attr: Tensor | EdgeTable | None = None,
        edge_weight: Tensor | None = None,
        weights: Weights | None = None,
        gap: Tensor | None = None,
        size: tuple[int, int] | None = None,
    ) -> Tensor:
        """Convolve; all but ``x`` and ``edge_index`` is given by keyword, as a field cannot be told from edge features.

        ``weights`` of an earlier ``plan.compute_weights(edge_field, graph, gap)`` save computing them again, for one
        set of nodes. ``size`` are the numbers of sources and targets, where ``x`` has no targets.
        """
        if positional:
            refuse_positional(type(self).__name__, positional)
        if self.update is None:
            self._build(infer_widths(self.widths, x))
            self.to(*((x.device, x.dtype) if isinstance(x, Tensor) else (x[0].device, x[0].dtype)))
        if isinstance(x, (tuple, list)):
            refuse_weights(weights)
            return self._bipartite(x, edge_index, edge_field, edge_attr, edge_weight, gap, size)
        if x.dim() != 2 or x.size(1) != self.in_channels or not x.is_floating_point():
            raise ValueError(
                f"x: expected floating-point numbers [N, {self.in_channels}], got {x.dtype} {list(x.shape)}; "
                "in_channels of the layer and the width of the features must agree"
            )
        graph = as_graph(edge_index, x.size(0))
        if weights is None:
            weights = self.plan.cached_weights(edge_field, graph, gap, x.dtype)
        if edge_weight is None and conv_is_fused(x, self, weights, edge_attr):
            from dgn.nn.fused.gpu_conv import fused_conv

            return fused_conv(x, self, graph, weights, edge_attr)
        return sum_parts(self.parts(x, graph, weights, edge_attr, edge_weight))

    def parts(
        self,
        x: Tensor,
        graph: Graph,
        weights: Weights,
        edge_attr: Tensor | EdgeTable | None = None,
        edge_weight: Tensor | None = None,
    ) -> ConvParts:
        """The convolution up to its last sum, which an epilogue may fuse."""
        messages = self._messages(x, graph, edge_attr)
        if edge_weight is not None or self.explain:
            messages = self._scaled(messages, graph, edge_weight)
        aggregated = aggregate_rows(self.plan, messages, weights, graph, self.backend)
        n, outputs, width = x.size(0), aggregated.size(1), self.in_channels // self.towers
        by_tower = aggregated.view(n, outputs, self.towers, width).transpose(1, 2)
        stacked = by_tower.reshape(n, self.towers, outputs * width)
        self_out = None
        if self.update.own is not None:
            self_out = grouped_linear(x.view(n, self.towers, width), self.update.own).flatten(1)
        if self.backend != "reference" and update_by_degree_pays(x, self.towers, len(self.scalers), graph):
            scaled_out = update_by_degree(
                stacked.flatten(1), self.update.scaled.flatten(0, 1), graph, self.scalers, self.delta
            )
            return ConvParts(scaled_out[:, None, None], self_out, None, self.update.bias)
        scaled_out = grouped_linear(stacked, self.update.scaled)
        scale = None if self.scalers == ("identity",) else self._scalers(graph, x.dtype)
        shape = n, self.towers, len(self.scalers), self.out_channels // self.towers
        return ConvParts(scaled_out.view(shape), self_out, scale, self.update.bias)

    def _messages(self, x: Tensor, graph: Graph, edge_attr: Tensor | EdgeTable | None) -> Messages:
        self.check_edges(edge_attr, graph)
        if self.message is None:
            return Messages(source=x)
        if not isinstance(self.message, MessageLinear):
            return self._general(x, graph, edge_attr)
        ends, edge, bias = self.message.ends, self.message.edge, self.message.bias
        both = grouped_linear(x.view(x.size(0), self.towers, ends.size(2)), ends)  # one product for both ends
        source, target = (part.reshape(x.shape) for part in both.chunk(2, dim=2))
        table = row = None
        if edge_attr is not None and edge is not None:
            features = edge_attr.table if isinstance(edge_attr, EdgeTable) else edge_attr
            table = multiply(features, edge.flatten(0, 1)).to(x.dtype)
            if isinstance(edge_attr, EdgeTable):
                row = edge_attr.row if edge_attr.sorted_by_target else edge_attr.sort(graph).row
        node = x if self.dx_reference == "node" else None
        return Messages(source, add_bias(target, bias.flatten()), table, row, node)

    def _general(self, x: Tensor, graph: Graph, edge_attr: Tensor | EdgeTable | None) -> Messages:
        """Messages of any module, built edge by edge."""
        assert self.message is not None
        if isinstance(edge_attr, EdgeTable):
            table, row = edge_attr.table, edge_attr.rows
            if edge_attr.sorted_by_target:  # a module is given edges in the order of edge_index
                row = torch.empty_like(row).index_copy(0, graph.by_target.order.long(), row)
            edge_attr = gather_rows(table, row)
        edges = [] if edge_attr is None else [edge_attr]
        ends = gather_rows(x, graph.source), gather_rows(x, graph.target)
        built = self.message(torch.cat([*ends, *edges], dim=1))
        if built.shape != (graph.num_edges, self.in_channels):
            raise ValueError(
                f"message: expected a module that gives [{graph.num_edges}, {self.in_channels}], got "
                f"{list(built.shape)}; its output must be as wide as in_channels"
            )
        if not self.plan.has_self or self.dx_reference == "node":
            return Messages(table=built, node=x)
        nothing = [x.new_zeros(x.size(0), self.edge_dim)] if self.edge_dim else []
        return Messages(table=built, node=self.message(torch.cat([x, x, *nothing], dim=1)))

    def _scaled(self, messages: Messages, graph: Graph, edge_weight: Tensor | None) -> Messages:
        """The messages times the weights of edges, and times the mask of an explainer."""
        built = messages.build(graph)
        built = torch.empty_like(built).index_copy(0, graph.by_target.order.long(), built)  # in the order of edge_index
        if edge_weight is not None:
            if edge_weight.shape != (graph.num_edges,) or not edge_weight.is_floating_point():
                raise ValueError(
                    f"edge_weight: expected floating-point numbers [{graph.num_edges}], one per edge, got "
                    f"{edge_weight.dtype} {list(edge_weight.shape)}; features of edges are edge_attr="
                )
            built = built * edge_weight[:, None].to(built.dtype)
        if self.explain:
            built = self.explain_message(built, graph.num_nodes)
        return Messages(table=built, node=messages.of_node() if self.plan.reads_node else None)

    def check_edges(self, edge_attr: Edges, graph: Graph) -> None:
        """Refuse edge features that the layer was not made for, or that are not one row per edge."""
        rows = width = None
        if edge_attr is not None:
            each = edge_attr.number if isinstance(edge_attr, LowRankEdgeFeatures) else edge_attr
            rows = (each.row if isinstance(each, EdgeTable) else each).size(0)
            features = edge_attr if isinstance(edge_attr, Tensor) else edge_attr.table
            width = features.size(1) if features.dim() == 2 else 0
        if width != self.edge_dim or rows not in (None, graph.num_edges):
            expected = "None" if self.edge_dim is None else f"{graph.num_edges} rows of width {self.edge_dim}"
            came = "None" if rows is None else f"{rows} rows " + (f"of width {width}" if width else "of numbers")
            raise ValueError(
                f"edge_attr: expected {expected}, got {came}; "
                "edge features need message='complex' and edge_dim= in the layer, and then go into every call"
            )

    def _scalers(self, graph: Graph, dtype: torch.dtype) -> Tensor:
        """The degree scalers of a graph, made once for all layers that agree on them."""
        if torch.compiler.is_compiling():
            return degree_scalers(graph.in_degree, self.scalers, self.delta, dtype)
        return graph_scalers(graph, ScalerKey(self.scalers, self.delta, dtype))

    def _bipartite(
        self,
        x: Sequence[Tensor | None],
        edge_index: Any,
        edge_field: Tensor | None,
        edge_attr: Tensor | EdgeTable | None,
        edge_weight: Tensor | None,
        gap: Tensor | None,
        size: tuple[int, int] | None,
    ) -> Tensor:
        """Sources and targets are two sets of nodes: put them side by side, and keep the targets."""
        source, target = x
        assert source is not None
        if self.source_map is not None:
            if source.size(-1) != self.widths[0]:
                raise ValueError(
                    f"x: expected sources of width {self.widths[0]}, got {list(source.shape)}; in_channels of the "
                    "layer are (sources, targets)"
                )
            source = self.source_map(source)
        if target is None:
            if self.plan.reads_node or self.message is not None:
                raise ValueError(
                    f"x: expected targets for {self}, got None; they enter dx aggregators and messages that are not "
                    "simple: pass (sources, targets)"
                )
            target = source.new_zeros(count_targets(edge_index, size), source.size(-1))
        if source.shape[1:] != target.shape[1:]:
            raise ValueError(
                f"x: expected sources and targets of the same width, got {list(source.shape)} and "
                f"{list(target.shape)}; give both widths to the layer, DGNConv((sources, targets), ...)"
            )
        graph = read_bipartite(edge_index, source.size(0), target.size(0))
        if gap is not None:
            gap = torch.cat([gap, gap.new_full((source.size(0), gap.size(1)), torch.nan)])
        both = torch.cat([target, source])
        whole = self.forward(both, graph, edge_field=edge_field, edge_attr=edge_attr, edge_weight=edge_weight, gap=gap)
        return whole[: target.size(0)]

    def __repr__(self) -> str:
        parts = [f"aggregators=[{', '.join(self.plan.names)}]", f"message={self.message_kind}"]
        if self.scalers != ("identity",):
            parts.append(f"scalers=[{', '.join(self.scalers)}], delta={self.delta:.4g}")
        parts += [f"edge_dim={self.edge_dim}"] if self.edge_dim else []
        parts += [f"towers={self.towers}"] if self.towers > 1 else []
        widths = self.in_channels if self.widths[0] == self.widths[1] else self.widths
        return f"{type(self).__name__}({widths}, {self.out_channels}, {', '.join(parts)})"


def sum_parts(parts: ConvParts) -> Tensor:
    r"""The output of a convolution: :math:`\sum_s S_s(d_i) \, y_{is} + y_i^{self} + b`. Returns [N, out]."""
    scaled_out, self_out, scale, bias = parts
    scaled = scaled_out if scale is None else scaled_out * scale[:, None, :, None]
    summed = scaled[:, :, 0] if scaled.size(2) == 1 else scaled.sum(dim=2)
    out = (summed + bias.to(scaled_out.dtype)).flatten(1)
    return out if self_out is None else out + self_out
