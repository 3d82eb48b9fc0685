"""Sorted edges as an operator that torch.compile calls."""

import pytest
import torch

from dgn.graph import Graph, as_graph
from dgn.kernels.layout import SortedEdges


def draw_edges(nodes, edges):
    return torch.randint(0, nodes, (2, edges), generator=torch.Generator().manual_seed(edges))


@pytest.mark.parametrize(("nodes", "edges"), [(5, 20), (40, 30), (3, 0)])
def test_the_operator_gives_the_parts_of_a_graph(nodes, edges):
    graph = as_graph(draw_edges(nodes, edges), nodes)
    got = SortedEdges(*torch.ops.dgn.sort_edges(graph.edge_index, nodes))
    pairs = {
        "pointer": graph.by_target.pointer,
        "source_pointer": graph.source_pointer,
        "order": graph.by_target.order,
        "neighbor": graph.by_target.neighbor,
        "source_order": graph.source_order,
        "edge_to_source": graph.edge_to_source,
    }
    for name, expected in pairs.items():
        assert torch.equal(getattr(got, name), expected), name
    torch.library.opcheck(torch.ops.dgn.sort_edges.default, (graph.edge_index, nodes))


def test_a_traced_graph_has_the_same_parts(monkeypatch):
    monkeypatch.setattr(Graph, "_is_traced", lambda _: torch.compiler.is_compiling())  # as on a GPU

    def parts(edge_index, x):
        graph = as_graph(edge_index, x.size(0))
        return *graph.by_target, graph.source_pointer, graph.source_order, graph.target_to_source, graph.edge_to_source

    compiled = torch.compile(parts, fullgraph=True, dynamic=True, backend="aot_eager")
    for nodes, edges in [(6, 20), (40, 31)]:
        inputs = draw_edges(nodes, edges), torch.zeros(nodes, 2)
        for actual, expected in zip(compiled(*inputs), parts(*inputs), strict=True):
            assert torch.equal(actual, expected)
