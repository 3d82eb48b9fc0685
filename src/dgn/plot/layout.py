"""Layout of graphs without node positions."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.spectral import directions

MOST_SPRINGS = 150  # nodes; above, the spring layout is too slow, and the first two directions are the axes
SPACE = 1.6  # between components, in edge lengths


def lay_out(edge_index: Tensor, num_nodes: int) -> NDArray[np.float64]:
    """Positions of the nodes: Kamada-Kawai for each component, or its first two directions if it is large.

    Components are side by side. The median edge has length 1. The layout is deterministic.

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
        local_position = _component(graph.subgraph(nodes), nodes)
        local_position -= [local_position[:, 0].min(), (local_position[:, 1].min() + local_position[:, 1].max()) / 2]
        position[nodes] = local_position + np.array([right, 0.0])
        right += float(local_position[:, 0].max()) + SPACE
    return position


def _component(graph: Any, nodes: list[int]) -> NDArray[np.float64]:
    import networkx as nx

    if len(nodes) == 1:
        return np.zeros((1, 2))
    index = {node: local for local, node in enumerate(nodes)}
    ends = np.array([(index[j], index[i]) for j, i in graph.edges])
    if len(nodes) <= MOST_SPRINGS:
        by_node = nx.kamada_kawai_layout(graph)
        local_position = np.array([by_node[node] for node in nodes])
    else:
        local_position = directions(torch.from_numpy(ends.T.copy()), len(nodes), k=2).potential.numpy().copy()
    length = float(np.median(np.linalg.norm(local_position[ends[:, 0]] - local_position[ends[:, 1]], axis=1)))
    scaled: NDArray[np.float64] = local_position / (length or 1.0)
    return scaled
