"""How likely a random walk is to be back where it began, or at a neighbour."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_package
from dgn.kernels.numba.threads import for_chunks

STEPS, EDGE_STEPS = 16, 4  # unless one asks for more or fewer
SMALLEST = 256  # nodes that are worth a thread
SMALL = 256  # nodes of a graph whose walks fit the cache of a core, all of them side by side


def return_probabilities(edge_index: Any, steps: int = STEPS, num_nodes: int | None = None) -> Tensor:
    r"""The probability that a random walk is back at its node after 1, 2, ..., steps.

    .. math:: p_{it} = \big((D^{-1} A)^t\big)_{ii}, \qquad t = 1, \dots, \text{steps}

    :math:`A_{ij}` counts the edges from j to i and :math:`D_{ii} = \sum_j A_{ij}`: the walk goes from a node to one of
    those that send it messages, each edge equally likely. Parallel edges count as often as they occur, a self-loop is
    a step that stays. A walk that reaches a node without such edges ends there and does not come back.

    Laws: relabelling the nodes relabels the rows; graphs side by side give what each gives alone. Without self-loops
    :math:`p_{i1} = 0`, and in a bipartite graph every odd t has probability 0.

    Small graphs are followed as a whole, half of the steps: what returns after s + t steps meets what went s with what
    went t. In large ones each node is followed by itself, through the nodes that its walk can reach. Graphs of a batch
    cost no more than one by one. Computed in float64, without rounding to float32 on the way. Needs Numba.

    Shapes:
        ``edge_index`` [2, E], a ``Graph``, a PyG ``Data`` or ``PackedGraphs``; returns [N, steps] float32.

    >>> return_probabilities(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), steps=4).tolist()
    [[0.0, 0.5, 0.0, 0.5], [0.0, 1.0, 0.0, 1.0], [0.0, 0.5, 0.0, 0.5]]
    """
    return _walk("return_probabilities", edge_index, steps, num_nodes, at_edges=False)


def edge_affinities(edge_index: Any, steps: int = EDGE_STEPS, num_nodes: int | None = None) -> Tensor:
    r"""How much likelier than by chance a random walk from one end of an edge is at the other after 1, 2, ..., steps.

    .. math:: r_{et} = \big((D^{-1} A)^t\big)_{ij} \, \frac{m}{d_j}, \qquad e = (j \to i), \quad t = 1, \dots, T

    Walks are those of :func:`return_probabilities`, m is the number of edges of the graph and :math:`d_j = D_{jj}`: in
    an undirected graph that hangs together, :math:`d_j / m` is where a walk is in the end, wherever it began. After two
    steps r is large where both ends have many neighbours in common, after more where there are many ways around: in a
    graph of communities it tells an edge within one from an edge between two.

    Laws: relabelling the nodes changes nothing; where every edge has its way back, both have the same row; r tends to 1
    in an undirected graph that hangs together and is not bipartite. If :math:`d_j = 0`, r is 0.

    Shapes:
        ``edge_index`` [2, E], a ``Graph``, a PyG ``Data`` or ``PackedGraphs``; returns [E, steps] float32, in the order
        of ``edge_index``.

    >>> edge_affinities(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), steps=3).tolist()
    [[2.0, 0.0, 2.0], [2.0, 0.0, 2.0], [2.0, 0.0, 2.0], [2.0, 0.0, 2.0]]
    """
    graph = as_graph(edge_index, num_nodes)
    probability = _walk("edge_affinities", graph, steps, None, at_edges=True)
    batch = torch.zeros_like(graph.target) if graph.batch is None else graph.batch[graph.target]
    edges = torch.bincount(batch, minlength=1)  # of each graph
    chance = (graph.in_degree[graph.source] / edges[batch].double())[:, None]
    return torch.where(chance > 0, probability / chance, 0.0).float()


def check_steps(steps: int, usual: int) -> int:
    """Refuse walks without a step."""
    if steps < 1:
        raise ValueError(f"steps: expected 1 or more, got {steps}; ask for {usual}, for example")
    return steps


def _walk(name: str, edge_index: Any, steps: int, num_nodes: int | None, at_edges: bool) -> Tensor:
    check_steps(steps, EDGE_STEPS if at_edges else STEPS)
    check_package(name, "numba")
    from dgn.kernels.numba.random_walks import arrive, follow, meet

    graph = as_graph(edge_index, num_nodes)
    pointer, neighbor = (part.cpu().numpy() for part in (graph.by_target.pointer, graph.by_target.neighbor))
    found = np.zeros((graph.num_edges if at_edges else graph.num_nodes, steps), dtype=np.float32)
    starts = _starts(graph)
    if starts is None:
        for_chunks(lambda begin, end: follow(begin, end, pointer, neighbor, found, at_edges), graph.num_nodes, SMALLEST)
    else:
        smallest = max(1, SMALLEST * (len(starts) - 1) // max(graph.num_nodes, 1))
        together = arrive if at_edges else meet
        for_chunks(lambda begin, end: together(begin, end, starts, pointer, neighbor, found), len(starts) - 1, smallest)
    rows = torch.from_numpy(found).to(graph.edge_index.device)
    return torch.empty_like(rows).index_copy_(0, graph.by_target.order.long(), rows) if at_edges else rows


def _starts(graph: Graph) -> NDArray[np.int64] | None:
    """The first node of each graph and the end, if all are small, lie one behind the other and are not joined."""
    size = torch.tensor([graph.num_nodes])
    if graph.batch is not None:
        batch = graph.batch.cpu()
        source, target = graph.edge_index.cpu()
        if bool((batch.diff() < 0).any()) or not torch.equal(batch[source], batch[target]):
            return None
        size = torch.bincount(batch, minlength=graph.num_graphs)
    if not len(size) or int(size.max()) > SMALL:
        return None
    return np.concatenate([[0], size.cumsum(0).numpy()])
