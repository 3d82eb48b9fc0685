"""Return probabilities of random walks."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_package
from dgn.kernels.numba.threads import for_chunks

STEPS = 16  # by default
SMALLEST = 256  # nodes per chunk of a thread
SMALL = 256  # nodes of a graph whose dense transition matrix fits into the cache of a core


def return_probabilities(edge_index: Any, steps: int = STEPS, num_nodes: int | None = None) -> Tensor:
    r"""The return probabilities of a random walk from each node after 1, 2, ..., ``steps`` steps.

    .. math:: p_{it} = \big((D^{-1} A)^t\big)_{ii}, \qquad t = 1, \dots, \text{steps}

    :math:`A_{ij}` counts the edges from j to i and :math:`D_{ii} = \sum_j A_{ij}`: the walk goes from a node to one of
    those that send it messages, each edge equally likely. Parallel edges count with their multiplicity, a self-loop
    is a step that stays. A walk that reaches a node without such edges ends there.

    Laws: relabelling the nodes relabels the rows; the result for a graph in a batch is that for the graph alone.
    Without self-loops :math:`p_{i1} = 0`, and in a bipartite graph every odd t has probability 0.

    For small graphs the diagonal of :math:`P^{s+t}` comes from :math:`P^s P^t`, so that half of the powers suffice. In
    large ones the walk from each node is propagated through the nodes that it can reach. A batch costs no more than
    its graphs one by one. Computed in float64; needs Numba.

    Shapes:
        ``edge_index`` [2, E], a ``Graph``, a PyG ``Data`` or ``PackedGraphs``; returns [N, steps] float32.

    >>> return_probabilities(torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]]), steps=4).tolist()
    [[0.0, 0.5, 0.0, 0.5], [0.0, 1.0, 0.0, 1.0], [0.0, 0.5, 0.0, 0.5]]
    """
    check_steps(steps)
    check_package("return_probabilities", "numba")
    from dgn.kernels.numba.random_walks import walk_from_nodes, walk_small_graphs

    graph = as_graph(edge_index, num_nodes)
    pointer, neighbor = (array.cpu().numpy() for array in (graph.by_target.pointer, graph.by_target.neighbor))
    probability = np.zeros((graph.num_nodes, steps), dtype=np.float32)
    starts = _starts(graph)
    if starts is None:
        for_chunks(
            lambda begin, end: walk_from_nodes(begin, end, pointer, neighbor, probability), graph.num_nodes, SMALLEST
        )
    else:
        smallest = max(1, SMALLEST * (len(starts) - 1) // max(graph.num_nodes, 1))
        for_chunks(
            lambda begin, end: walk_small_graphs(begin, end, starts, pointer, neighbor, probability),
            len(starts) - 1,
            smallest,
        )
    return torch.from_numpy(probability).to(graph.edge_index.device)


def check_steps(steps: int) -> int:
    """``steps``, if there are any; raises otherwise."""
    if steps < 1:
        raise ValueError(f"steps: expected 1 or more, got {steps}; try {STEPS}")
    return steps


def _starts(graph: Graph) -> NDArray[np.int64] | None:
    """The first node of each graph and the end, if all graphs are small, contiguous and disjoint; else ``None``."""
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
