"""Places for the nodes of a graph that brings none."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.spectral import directions

MOST_SPRINGS = 150  # nodes; above, springs take too long and the two lowest directions are the axes
SPACE = 1.6  # between components, in edges


def lay_out(edge_index: Tensor, num_nodes: int) -> NDArray[np.float64]:
    """Draw each component by springs as long as its shortest paths (Kamada and Kawai), or by its first two directions.

    Components stand side by side. The median edge has length 1. The same graph is always drawn the same.

    Shapes:
        ``edge_index`` [2, E]; returns [N, 2].

    >>> path = lay_out(torch.tensor([[0, 1], [1, 2]]), 4)
    >>> np.hypot(*(path[1] - path[0])).round(3).item(), bool(path[3, 0] > path[:3, 0].max())
    (1.0, True)
    """
    import networkx as nx

    graph = nx.Graph()
    graph.add_nodes_from(range(num_nodes))
    graph.add_edges_from((j, i) for j, i in edge_index.T.tolist() if j != i)
    position, right = np.zeros((num_nodes, 2)), 0.0
    for nodes in map(sorted, nx.connected_components(graph)):
        place = _component(graph.subgraph(nodes), nodes)
        place -= [place[:, 0].min(), (place[:, 1].min() + place[:, 1].max()) / 2]
        position[nodes] = place + np.array([right, 0.0])
        right += float(place[:, 0].max()) + SPACE
    return position


def _component(graph: Any, nodes: list[int]) -> NDArray[np.float64]:
    import networkx as nx

    if len(nodes) == 1:
        return np.zeros((1, 2))
    number = {node: place for place, node in enumerate(nodes)}
    ends = np.array([(number[j], number[i]) for j, i in graph.edges])
    if len(nodes) <= MOST_SPRINGS:
        found = nx.kamada_kawai_layout(graph)
        place = np.array([found[node] for node in nodes])
    else:
        place = directions(torch.from_numpy(ends.T.copy()), len(nodes), k=2).potential.numpy().copy()
    length = float(np.median(np.linalg.norm(place[ends[:, 0]] - place[ends[:, 1]], axis=1)))
    scaled: NDArray[np.float64] = place / (length or 1.0)
    return scaled
