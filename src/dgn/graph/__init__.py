"""Graphs: the checked input, its sorted layout and its connected components."""

from dgn.graph import custom_op as _custom_op  # noqa: F401, registers what tracing calls
from dgn.graph.graph import Graph, GraphParts, Layout, as_graph, gather_rows, graph_of_nodes

__all__ = ["Graph", "GraphParts", "Layout", "as_graph", "gather_rows", "graph_of_nodes"]
