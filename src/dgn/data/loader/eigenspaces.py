"""All vectors of the repeated eigenspaces of a dataset, of which training draws random bases."""

from typing import NamedTuple

import torch
from torch import Tensor

from dgn.data.packed import PackedGraphs
from dgn.fields import gradient
from dgn.graph import Graph
from dgn.spectral import whole_eigenspaces
from dgn.spectral.laplacians import Normalization


class Eigenspaces(NamedTuple):
    """The graphs with repeated eigenvalues, and all K vectors of their eigenspaces.

    Rows of ``potential`` [n, K] and ``field`` [e, K] belong to the nodes ``node`` [n] and the edges ``edge`` [e] of the
    dataset; ``component`` [n] and ``gap`` [C, K] as in :class:`dgn.Directions`.
    """

    potential: Tensor
    field: Tensor
    node: Tensor
    edge: Tensor
    component: Tensor
    gap: Tensor


def find_eigenspaces(graphs: PackedGraphs, graph: Graph, normalization: Normalization) -> Eigenspaces:
    """All vectors of each repeated eigenspace among the directions of ``graphs``.

    ``graph`` holds the same nodes, and the edges in the order of the dataset.
    """
    if not {"repeated", "component"} <= graphs.nodes.keys():
        raise ValueError(
            "augmentation.resample: expected eigenvectors that were computed with dgn.data, got coordinates or a field "
            "that came with the graphs; leave it out for this data, or pack the graphs without a field"
        )
    batch, device = graphs.graph.batch, graph.edge_index.device
    assert batch is not None
    chosen = torch.zeros(len(graphs), dtype=torch.bool)
    chosen[batch[graphs.nodes["repeated"].any(dim=1)]] = True
    k, index = graphs.edges["edge_field"].size(1), chosen.nonzero()[:, 0]
    spaces = whole_eigenspaces(graphs.select(index), k=k, normalization=normalization)
    is_node = chosen[batch].to(device)
    node, edge = is_node.nonzero()[:, 0], is_node[graph.target].nonzero()[:, 0]
    potential = spaces.potential.to(device)
    field = gradient(potential, (is_node.cumsum(0) - 1)[graph.edge_index[:, edge]])
    return Eigenspaces(potential.float(), field.float(), node, edge, spaces.component.to(device), spaces.gap.to(device))
