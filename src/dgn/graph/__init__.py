"""Graphs: the checked input, its sorted layout and its connected components."""

from dgn.graph.graph import Graph, Layout, as_graph, gather_rows, graph_from_layout, graph_of_nodes

__all__ = ["Graph", "Layout", "as_graph", "gather_rows", "graph_from_layout", "graph_of_nodes"]
