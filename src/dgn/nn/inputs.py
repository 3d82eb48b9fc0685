"""What PyG users pass to layers and networks, checked."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dgn.aggregation import SCALERS
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_edge_index, check_option
from dgn.nn.edge_features import Edges, EdgeTable, LowRankEdgeFeatures


def read_graph(edge_index: Any, num_nodes: int, batch: Tensor | None = None, num_graphs: int | None = None) -> Graph:
    """A graph of ``num_nodes`` nodes from an ``edge_index``, ``EdgeIndex``, ``Graph``, or adjacency in torch CSR.

    A CSR matrix is the transposed adjacency, as in PyG: row i holds the sources of the messages to i.
    """
    edge_index = read_edges(edge_index)
    if isinstance(edge_index, Tensor):
        return as_graph(edge_index, num_nodes, batch, num_graphs)
    graph = as_graph(edge_index, None, batch, num_graphs)
    if graph.num_nodes != num_nodes:
        raise ValueError(
            f"edge_index: expected a graph of {num_nodes} nodes, as x has, got one of {graph.num_nodes}; make it with "
            "dgn.as_graph(edge_index, num_nodes=x.size(0))"
        )
    return graph


def read_bipartite(edge_index: Any, num_sources: int, num_targets: int) -> Graph:
    """Sources and targets are two sets of nodes: the targets first, then the sources, in one graph."""
    source, target = check_edge_index(read_edges(edge_index), max(num_sources, num_targets))[0]
    for name, nodes, count in (("sources", source, num_sources), ("targets", target, num_targets)):
        if not torch.compiler.is_compiling() and nodes.numel() and int(nodes.max()) >= count:
            raise ValueError(
                f"edge_index: expected {name} below {count}, as x has, got {int(nodes.max())}; row 0 holds sources "
                "and row 1 targets"
            )
    return Graph(torch.stack([source + num_targets, target]), num_sources + num_targets)


def read_edges(edge_index: Any) -> Any:
    """A plain ``edge_index`` from a CSR matrix or PyG's ``EdgeIndex``; anything else as it is."""
    if isinstance(edge_index, Tensor) and edge_index.layout == torch.sparse_csr:
        degree = edge_index.crow_indices().diff()
        target = torch.repeat_interleave(torch.arange(degree.size(0), device=degree.device), degree)
        return torch.stack([edge_index.col_indices(), target])
    return edge_index.as_tensor() if hasattr(edge_index, "as_tensor") else edge_index


def check_arguments(in_channels: int, out_channels: int, message: object, edge_dim: int | None, towers: int) -> None:
    """Refuse what makes no convolution."""
    if in_channels < 1 or out_channels < 1:
        raise ValueError(
            f"in_channels, out_channels: expected 1 or more, got {in_channels} and {out_channels}; widths are not "
            "inferred from the first input"
        )
    if not isinstance(message, nn.Module):
        check_option("message", message, ("simple", "complex"))
    if edge_dim is not None and message == "simple":
        raise ValueError(f"edge_dim: expected None with message='simple', got {edge_dim}; use message='complex'")
    if towers < 1 or in_channels % towers or out_channels % towers:
        raise ValueError(
            f"towers: expected a divisor of in_channels={in_channels} and out_channels={out_channels}, got {towers}; "
            "choose widths that are multiples of it"
        )
    if towers > 1 and message != "complex":
        raise ValueError(f"towers: expected 1 with message={message!r}, got {towers}; use message='complex'")


def check_width(h: Tensor, hidden: int) -> Tensor:
    """What an encoder made of the inputs of nodes, if a network can go on with it."""
    if h.size(-1) != hidden:
        raise ValueError(f"node_encoder: expected one that gives {hidden} channels, got {h.size(-1)}; make it so wide")
    return h


def read_scalers(scalers: Sequence[str], delta: float | None) -> tuple[tuple[str, ...], float]:
    """The names of the degree scalers, and what they divide by: 1 where none was given and no scaler asks for one.

    Others have no good default: log(degree + 1) is 1.1 at a degree of 2 and 3.9 at one of 50.

    >>> read_scalers(["identity"], None), read_scalers(["identity", "amplification"], 1.1)
    ((('identity',), 1.0), (('identity', 'amplification'), 1.1))
    """
    if isinstance(scalers, str) or not scalers:
        raise ValueError(f"scalers: expected a list of one or more names, got {scalers!r}; ['identity'] is none")
    for scaler in scalers:
        check_option("scaler", scaler, SCALERS)
    if set(scalers) == {"identity"}:
        return tuple(scalers), 1.0 if delta is None else delta
    if delta is None or not delta > 0:
        raise ValueError(
            f"delta: expected a number above 0, the mean of log(degree + 1) over the training nodes, for the scalers "
            f"{', '.join(scalers)}, got {delta}; pass delta=dgn.average_log_degree(training_graphs)"
        )
    return tuple(scalers), delta


def check_edges(edge_dim: int | None, edge_attr: Edges, graph: Graph) -> None:
    """Refuse edge features that the layer was not made for, or that are not one row per edge."""
    rows = width = None
    if edge_attr is not None:
        each = edge_attr.number if isinstance(edge_attr, LowRankEdgeFeatures) else edge_attr
        rows = (each.row if isinstance(each, EdgeTable) else each).size(0)
        features = edge_attr if isinstance(edge_attr, Tensor) else edge_attr.table
        width = features.size(1) if features.dim() == 2 else 0
    if width != edge_dim or rows not in (None, graph.num_edges):
        expected = "None" if edge_dim is None else f"{graph.num_edges} rows of width {edge_dim}"
        came = "None" if rows is None else f"{rows} rows " + (f"of width {width}" if width else "of numbers")
        raise ValueError(
            f"edge_attr: expected {expected}, got {came}; "
            "edge features need message='complex' and edge_dim= in the layer, and then go into every call"
        )
