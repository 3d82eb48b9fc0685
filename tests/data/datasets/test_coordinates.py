"""Coordinates as potentials; slices of edges do not change the field."""

import pytest
import torch

from dgn.data import PackedGraphs
from dgn.data.datasets import coordinates
from dgn.data.datasets.coordinates import add_coordinates
from dgn.fields import gradient


@pytest.mark.parametrize("max_edges", [1, 3, 100])
def test_the_field_is_the_gradient_for_any_slices(max_edges: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinates, "MAX_EDGES", max_edges)
    pair, path, alone = torch.tensor([[0], [1]]), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), torch.empty(2, 0).long()
    graphs = PackedGraphs.pack([(pair, 2), (alone, 1), (path, 3), (alone, 2), (pair, 2)])
    position = torch.randn(10, 2, generator=torch.Generator().manual_seed(0))
    result = add_coordinates(graphs, position)
    assert torch.equal(result.edges["edge_field"], gradient(position, graphs.graph.edge_index))
    assert torch.equal(result.nodes["node_potential"], position)


def test_one_row_per_node_is_required() -> None:
    with pytest.raises(ValueError, match=r"expected shape \[2, k\]"):
        add_coordinates(PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)]), torch.zeros(2))
