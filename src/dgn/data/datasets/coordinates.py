"""Node coordinates as directions of packed graphs."""

from bisect import bisect_right

import torch
from torch import Tensor

from dgn.data.packed import PackedGraphs

MAX_EDGES = 1 << 22  # processed at once


def add_coordinates(graphs: PackedGraphs, coordinates: Tensor) -> PackedGraphs:
    r"""The graphs with coordinates as potentials $\phi$ and the field $\phi_j - \phi_i$ on edges j -> i.

    Shapes:
        ``coordinates`` [N, k]; ``nodes["node_potential"]`` [N, k] and ``edges["edge_field"]`` [E, k], both float32.

    >>> pair = PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)])
    >>> add_coordinates(pair, torch.tensor([[0.0, 1.0], [2.0, 1.0]])).edges["edge_field"].tolist()
    [[-2.0, 0.0]]
    """
    if coordinates.dim() != 2 or len(coordinates) != graphs.num_nodes:
        raise ValueError(
            f"coordinates: expected shape [{graphs.num_nodes}, k], got {list(coordinates.shape)}; give one row per node"
        )
    potential = coordinates.float().contiguous()
    field = potential.new_empty(graphs.num_edges, potential.size(1))
    # In slices: int64 indices of all edges at once would need more memory than the result.
    edges_before = graphs.edge_pointer.tolist()
    graph = 0
    while graph < len(graphs):
        end = max(graph + 1, bisect_right(edges_before, edges_before[graph] + MAX_EDGES) - 1)
        edges = slice(edges_before[graph], edges_before[end])
        first = graphs.node_pointer[graph:end].repeat_interleave(graphs.edge_pointer[graph : end + 1].diff())
        source, target = graphs.edge_index[:, edges].long() + first
        torch.sub(potential[source], potential[target], out=field[edges])
        graph = end
    return graphs.with_values(nodes={"node_potential": potential}, edges={"edge_field": field})
