"""Small datasets of graphs."""

import pytest
import torch

from dgn.data import PackedGraphs


def random_graphs(count: int, seed: int = 0, largest: int = 12) -> PackedGraphs:
    """Random undirected graphs of 0 to ``largest`` nodes, many of them disconnected."""
    generator = torch.Generator().manual_seed(seed)
    graphs = []
    for _ in range(count):
        nodes = int(torch.randint(0, largest + 1, (), generator=generator))
        lower = torch.rand(nodes, nodes, generator=generator).tril(-1) > 0.6
        edges = lower.nonzero().T
        graphs.append((torch.cat([edges, edges.flip(0)], dim=1), nodes))
    return PackedGraphs.pack(graphs)


@pytest.fixture
def small() -> PackedGraphs:
    """Three graphs, the second without nodes, with a node, an edge and a graph tensor."""
    path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    packed = PackedGraphs.pack([(path, 3), (path[:, :0], 0), (path[:, :2], 4)])
    return packed.with_values(
        nodes={"x": torch.arange(14.0).reshape(7, 2)},
        edges={"edge_attr": torch.arange(6, dtype=torch.uint8)},
        graphs={"y": torch.tensor([1.5, 2.5, 3.5])},
    )
