"""Graphs: the checked input, its sorted layout and its connected components."""

from dgn.graph.graph import Graph, Layout, as_graph, graph_of_nodes, prepared_graph, take_rows

__all__ = ["Graph", "Layout", "as_graph", "graph_of_nodes", "prepared_graph", "take_rows"]
