"""Graphs as PyG users have them."""

from typing import Any

import torch
from torch import Tensor

from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_edge_index


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
