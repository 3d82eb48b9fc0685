"""Diffusion on a graph and steps along a potential (section 2.5)."""

from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.linalg import expm_multiply
from torch import Tensor

from dgn.graph import graph_of_nodes
from dgn.graph.checks import check_columns, check_option, check_result, check_rows
from dgn.graph.components import components
from dgn.spectral.laplacians import adjacency, normalized, weighted_graph
from dgn.spectral.spectrum import divide_by_scale

LARGEST_DENSE = 2000  # nodes; above, the exponential is applied to the wanted rows instead of being formed


def heat_kernel(
    edge_index: Any,
    num_nodes: int | None = None,
    time: float = 1.0,
    sources: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""Transition probabilities of the continuous random walk: rows of :math:`q_t = e^{-t D^{-1} L}`.

    Row r starts from node ``sources[r]`` (default: every node). Small graphs are solved by one
    eigendecomposition, large ones by the action of the exponential on the rows of ``sources``: pass few of them.

    Laws: entries are 0 or more, rows sum to 1, :math:`q_s q_t = q_{s+t}`, :math:`q_0` is the identity; a node without
    edges stays where it is.

    Shapes:
        returns float64 [len(sources), N].

    >>> heat_kernel(torch.tensor([[0], [1]]), 2, time=100.0).round(decimals=6).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    if not 0 <= time < float("inf"):
        raise ValueError(f"time: expected a finite number of 0 or more, got {time}; use a time of 0 or more")
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    start = np.arange(graph.num_nodes) if sources is None else sources.cpu().numpy()
    if len(start) and not 0 <= start.min() <= start.max() < graph.num_nodes:
        raise ValueError(
            f"sources: expected nodes 0 to {graph.num_nodes - 1}, got {start.min()} to {start.max()}; pass node "
            "indices of the graph"
        )
    matrix = adjacency(graph, edge_weight)
    label = components(matrix)
    divide_by_scale(matrix, label, int(label.max(initial=-1)) + 1)  # probabilities do not depend on it
    exponential = _by_eigenvectors if graph.num_nodes <= LARGEST_DENSE else _by_action
    kernel = torch.from_numpy(exponential(matrix, time, start))
    return check_result("heat_kernel", kernel).to(graph.edge_index.device)


def diffusion_distance(
    edge_index: Any,
    num_nodes: int | None = None,
    time: float = 1.0,
    sources: Tensor | None = None,
    measure: Literal["uniform", "degree"] = "uniform",
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""The diffusion distance between pairs of ``sources`` (default: all nodes).

    .. math:: d_t(x, y) = \Big(\sum_z \frac{(q_t(x, z) - q_t(y, z))^2}{\mu(z)}\Big)^{1/2}

    ``"uniform"`` takes :math:`\mu = 1`, the paper's definition. ``"degree"`` takes degree over mean degree: only then
    does the paper's equation :math:`d_t^2 = \sum_i e^{-2 t \lambda_i} (\phi_i(x) - \phi_i(y))^2` hold, with the
    potentials of ``directions(..., normalization="rw")`` of a connected graph. They agree on regular graphs.

    Shapes:
        returns float64 [len(sources), len(sources)].

    >>> diffusion_distance(torch.tensor([[0], [1]]), 2, time=0.0).round(decimals=3).tolist()
    [[0.0, 1.414], [1.414, 0.0]]
    """
    check_option("measure", measure, ("uniform", "degree"))
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    kernel = heat_kernel(graph, time=time, sources=sources, edge_weight=edge_weight)
    if measure == "degree":
        matrix = adjacency(graph, edge_weight)
        divide_by_scale(matrix, np.zeros(graph.num_nodes, dtype=np.int64), 1)
        degree = torch.from_numpy(np.asarray(matrix.sum(axis=1))).to(kernel)
        # No heat reaches an isolated node from elsewhere: its measure is arbitrary.
        kernel = kernel / torch.where(degree > 0, degree / degree[degree > 0].mean(), 1.0).sqrt()
    return check_result("distance", torch.cdist(kernel, kernel, compute_mode="donot_use_mm_for_euclid_dist"))


def gradient_step(potential: Tensor, edge_index: Any) -> Tensor:
    r"""The node reached from each node by one step along the gradient of each potential.

    From x the step leads to the neighbour z (with an edge z -> x) of largest :math:`\phi(z) - \phi(x)`, the one of
    lowest index among equals; a self-loop makes a node its own neighbour; a node without neighbours stays.

    Shapes:
        ``potential`` [N, K] or [N]; returns node indices of the same shape.

    >>> gradient_step(torch.tensor([0.0, 1.0, 3.0]), torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])).tolist()
    [1, 2, 1]
    """
    graph = graph_of_nodes(edge_index, potential)
    check_rows("potential", potential, graph.num_nodes, "node")
    check_columns("potential", potential)
    flat = potential[:, None] if potential.dim() == 1 else potential
    rise = flat[graph.source]
    target = graph.target[:, None].expand_as(rise)
    highest = flat.new_full(flat.shape, -torch.inf).scatter_reduce(0, target, rise, reduce="amax")
    candidate = torch.where(rise == highest[graph.target], graph.source[:, None], graph.num_nodes)
    step = graph.source.new_full(flat.shape, graph.num_nodes).scatter_reduce(0, target, candidate, reduce="amin")
    nodes = torch.arange(graph.num_nodes, device=step.device)[:, None]
    return torch.where(step == graph.num_nodes, nodes, step).view(potential.shape)


def _by_eigenvectors(matrix: csr_array, time: float, start: NDArray[np.int64]) -> NDArray[np.float64]:
    values, vectors = np.linalg.eigh(normalized(matrix, "sym").toarray())
    root = np.sqrt(np.asarray(matrix.sum(axis=1)))
    root[root == 0] = 1.0
    values[: components(matrix).max(initial=-1) + 1] = 0.0  # one per component; rounding must not let them decay
    # D^-1/2 e^(-t L_sym) D^1/2, with rounding below 0 removed: these are probabilities.
    decay = np.exp(-time * np.maximum(values, 0.0))
    return np.asarray(np.maximum((vectors[start] * decay) @ vectors.T / root[start, None] * root, 0.0))


def _by_action(matrix: csr_array, time: float, start: NDArray[np.int64]) -> NDArray[np.float64]:
    rows = np.zeros((matrix.shape[0], len(start)))
    rows[start, np.arange(len(start))] = 1.0
    return np.asarray(np.maximum(expm_multiply(-time * normalized(matrix, "rw").T, rows).T, 0.0))
