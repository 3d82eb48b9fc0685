"""Coordinates of nodes as directions of a whole collection."""

import torch
from torch import Tensor

from dgn.data.packed import PackedGraphs

ROOM = 1 << 22  # edges worked on at once


def add_coordinates(graphs: PackedGraphs, coordinates: Tensor) -> PackedGraphs:
    r"""Use coordinates as potentials $\phi$: adds ``potential`` and its gradient $\phi_j - \phi_i$ on edges j -> i.

    Shapes:
        ``coordinates`` [N, k]; ``nodes["potential"]`` [N, k] and ``edges["field"]`` [E, k], both float32.

    >>> pair = PackedGraphs.pack([(torch.tensor([[0], [1]]), 2)])
    >>> add_coordinates(pair, torch.tensor([[0.0, 1.0], [2.0, 1.0]])).edges["field"].tolist()
    [[-2.0, 0.0]]
    """
    if coordinates.dim() != 2 or len(coordinates) != graphs.num_nodes:
        raise ValueError(
            f"coordinates: expected shape [{graphs.num_nodes}, k], got {list(coordinates.shape)}; give one row per node"
        )
    potential = coordinates.float().contiguous()
    field = potential.new_empty(graphs.num_edges, potential.size(1))
    # In parts: node numbers of all edges at once, as int64, would need more memory than the result.
    for start in range(0, graphs.num_edges, ROOM):
        edges = torch.arange(start, min(start + ROOM, graphs.num_edges), device=potential.device)
        first = graphs.node_pointer[torch.searchsorted(graphs.edge_pointer, edges, right=True) - 1]
        source, target = graphs.edge_index[:, start : start + ROOM].long() + first
        torch.sub(potential[source], potential[target], out=field[start : start + ROOM])
    return graphs.with_values(nodes={"potential": potential}, edges={"field": field})
