"""How likely a random walk is to be back where it began."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_package
from dgn.kernels.numba.threads import for_chunks

STEPS = 16  # unless one asks for more or fewer
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
    check_steps(steps)
    check_package("return_probabilities", "numba")
    from dgn.kernels.numba.random_walks import follow, meet

    graph = as_graph(edge_index, num_nodes)
    pointer, neighbor = (part.cpu().numpy() for part in (graph.by_target.pointer, graph.by_target.neighbor))
    found = np.zeros((graph.num_nodes, steps), dtype=np.float32)
    starts = _starts(graph)
    if starts is None:
        for_chunks(lambda begin, end: follow(begin, end, pointer, neighbor, found), graph.num_nodes, SMALLEST)
    else:
        smallest = max(1, SMALLEST * (len(starts) - 1) // max(graph.num_nodes, 1))
        for_chunks(lambda begin, end: meet(begin, end, starts, pointer, neighbor, found), len(starts) - 1, smallest)
    return torch.from_numpy(found).to(graph.edge_index.device)


def check_steps(steps: int) -> int:
    """Refuse walks without a step."""
    if steps < 1:
        raise ValueError(f"steps: expected 1 or more, got {steps}; ask for {STEPS}, for example")
    return steps


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
