"""Graphs: the checked input, its sorted layout and its connected components."""

from dgn.graph.graph import Graph, GraphParts, Layout, as_graph, gather_rows, graph_of_nodes

__all__ = ["Graph", "GraphParts", "Layout", "as_graph", "gather_rows", "graph_of_nodes"]
