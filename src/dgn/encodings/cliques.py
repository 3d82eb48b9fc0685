"""How many cliques of each size contain a node, and an edge."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.encodings.rings import LIMIT, check_sizes, columns_of
from dgn.encodings.simple import simple_graph
from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_package

CLIQUES = (3, 4, 5)


class Cliques(NamedTuple):
    """Numbers of cliques, one column for each size.

    Shapes:
        ``nodes`` [N, S] and ``edges`` [E, S], int64.
    """

    nodes: Tensor
    edges: Tensor


def clique_counts(
    edge_index: Any, sizes: Iterable[int] = CLIQUES, num_nodes: int | None = None, limit: int = LIMIT
) -> Cliques:
    """The number of cliques of each size that contain each node, and each edge.

    A clique is a set of nodes that are all joined to each other; a larger one contains smaller ones, which count as
    well. Cliques of 3 are the rings of 3. In dense graphs, where longer cycles are too many, cliques can be counted.

    Directions, self-loops and parallel edges do not matter: cliques are those of the undirected simple graph, and every
    copy of an edge, in either direction, has the number of its undirected edge; a self-loop has 0.

    Laws: relabelling reorders; graphs side by side give what each gives alone. The numbers of a size s sum up to s
    times the number of such cliques over nodes, and to s (s - 1) / 2 times that number over undirected edges.

    A node is met with neighbours of a higher degree alone (numbers decide between equal ones), so that each clique is
    found once and hubs cost little. Where more than ``limit`` neighbours have to be looked at from a single node, the
    graph is refused. Needs Numba.

    Shapes:
        ``edge_index`` [2, E], a ``Graph``, a PyG ``Data`` or ``PackedGraphs``; returns ``nodes`` [N, S] and ``edges``
        [E, S].

    >>> square = torch.tensor([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 2, 4]])  # with a diagonal and a tail
    >>> clique_counts(square, sizes=[3, 4]).nodes.tolist(), clique_counts(square, sizes=[3]).edges.T.tolist()
    ([[2, 0], [1, 0], [2, 0], [1, 0], [0, 0]], [[1, 1, 1, 1, 2, 0]])
    """
    column = columns_of(sizes := check_sizes(sizes))
    check_package("clique_counts", "numba")
    from dgn.kernels.numba.cliques import count_cliques

    graph = as_graph(edge_index, num_nodes)
    rank = _by_degree(graph)
    simple = simple_graph(rank[graph.edge_index.cpu().numpy()], graph.num_nodes)
    pointer = np.searchsorted(simple.low, np.arange(graph.num_nodes + 1))
    nodes = np.zeros((graph.num_nodes, len(sizes)), dtype=np.int64)
    edges = np.zeros((len(simple.low) + 1, len(sizes)), dtype=np.int64)  # the last one: of self-loops
    stuck = count_cliques(pointer, simple.high, column, limit, nodes, edges)
    if stuck >= 0:
        raise ValueError(
            f"clique_counts: expected at most {limit} neighbours to look at from a node, got more from node "
            f"{int((rank == stuck).argmax())}; the graph is too dense for cliques of {max(sizes)} nodes: leave out "
            "large sizes, or raise limit"
        )
    device = graph.edge_index.device
    return Cliques(torch.from_numpy(nodes[rank]).to(device), torch.from_numpy(edges[simple.links]).to(device))


def _by_degree(graph: Graph) -> NDArray[np.int64]:
    """The place of each node among those of its graph, graph by graph, the least degree first."""
    degree = np.bincount(graph.edge_index.cpu().numpy().ravel(), minlength=graph.num_nodes)
    batch = np.zeros_like(degree) if graph.batch is None else graph.batch.cpu().numpy()
    rank = np.empty_like(degree)
    rank[np.lexsort((degree, batch))] = np.arange(graph.num_nodes)
    return rank
