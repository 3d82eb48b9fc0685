"""The three Laplacians of section 2.5."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Literal

import numpy as np
import torch
from scipy.sparse import coo_array, csr_array, diags_array
from torch import Tensor

from dgn.graph import Graph, as_graph
from dgn.graph.checks import check_option, check_result, check_weight

Normalization = Literal["rw", "sym"] | None
NORMALIZATIONS = (None, "rw", "sym")
MOST_DIRECTIONS = 1000  # that may be asked for of any graph; those it does not have are 0


def laplacian(
    edge_index: Any,
    num_nodes: int | None = None,
    normalization: Normalization = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""The Laplacian of a graph as a sparse matrix (section 2.5).

    .. math::
        L = D - A, \qquad L_{rw} = D^{-1} L, \qquad L_{sym} = D^{-1/2} L D^{-1/2}

    with :math:`A` the symmetric adjacency matrix of :func:`adjacency` and :math:`D` the diagonal matrix of its row
    sums. ``normalization`` is ``None``, ``"rw"`` (the paper's :math:`L_{norm}`) or ``"sym"``.

    Laws: :math:`L 1 = 0` and :math:`L_{rw} 1 = 0`; :math:`L` and :math:`L_{sym}` are symmetric and positive
    semi-definite; the eigenvalue 0 has one vector per connected component. A node without edges has a row of zeros.

    Shapes:
        ``edge_index`` [2, E], ``edge_weight`` [E]; returns sparse [N, N] in the dtype of the weights, or float64.

    >>> path = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    >>> laplacian(path, 3).to_dense().tolist()
    [[1.0, -1.0, 0.0], [-1.0, 2.0, -1.0], [0.0, -1.0, 1.0]]
    >>> laplacian(path, 3, "rw").to_dense().tolist()
    [[1.0, -1.0, 0.0], [-0.5, 1.0, -0.5], [0.0, -1.0, 1.0]]
    """
    check_option("normalization", normalization, NORMALIZATIONS)
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    weights = adjacency(graph, edge_weight)
    if normalization is not None and weights.nnz:  # which does not depend on the scale
        weights.data /= np.ldexp(1.0, np.frexp(weights.data.max())[1] - 1)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        matrix = coo_array(normalized(weights, normalization))
    dtype = torch.float64 if edge_weight is None else edge_weight.dtype
    data = check_result("laplacian", torch.as_tensor(matrix.data, dtype=dtype))
    return torch.sparse_coo_tensor(
        torch.as_tensor(np.stack(matrix.coords), dtype=torch.long),
        data,
        (graph.num_nodes, graph.num_nodes),
        device=graph.edge_index.device,
        check_invariants=True,
    ).coalesce()


def weighted_graph(edge_index: Any, num_nodes: int | None, edge_weight: Tensor | None) -> tuple[Graph, Tensor | None]:
    """The checked graph and its weights: ``edge_weight``, else those of a PyG ``Data`` or of packed graphs."""
    packed = getattr(edge_index, "edges", None)
    values = packed if isinstance(packed, Mapping) else {}
    stored = values.get("edge_weight", getattr(edge_index, "edge_weight", None))
    weight = stored if edge_weight is None else edge_weight
    graph = as_graph(edge_index, num_nodes)
    if weight is not None:
        check_weight(weight, graph.num_edges)
    return graph, weight


def adjacency(graph: Graph, edge_weight: Tensor | None = None) -> csr_array:
    r"""The symmetric adjacency matrix of all Laplacians, float64, on the CPU.

    :math:`A_{ij} = \max(W_{ij}, W_{ji})`, where :math:`W_{ij}` is the sum of the weights (1 if none are given) of all
    edges from j to i. So an undirected graph may list each edge in one direction or in both, parallel edges add up,
    and a directed graph is symmetrised. Self-loops and edges of weight 0 are left out.
    """
    weight = torch.ones(graph.num_edges) if edge_weight is None else edge_weight.detach()
    source, target = graph.edge_index.cpu().numpy()
    data = np.where(source == target, 0.0, weight.cpu().double().numpy())
    directed = coo_array((data, (target, source)), shape=(graph.num_nodes, graph.num_nodes)).tocsr()
    symmetric = csr_array(directed.maximum(directed.T))
    symmetric.eliminate_zeros()
    check_result("edge_weight", torch.from_numpy(symmetric.data))  # parallel edges add up
    return symmetric


def normalized(matrix: csr_array, normalization: Normalization) -> csr_array:
    """The Laplacian of a symmetric adjacency matrix."""
    degree = matrix.sum(axis=1)
    combinatorial = diags_array(degree) - matrix
    if normalization is None:
        return csr_array(combinatorial)
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    if normalization == "rw":
        return csr_array(diags_array(inverse) @ combinatorial)
    root = diags_array(np.sqrt(inverse))
    return csr_array(root @ combinatorial @ root)


def check_request(k: int, normalization: Normalization, nodes: int | None = None) -> None:
    """Refuse invalid arguments of ``directions``, and a k far beyond the number of ``nodes``."""
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 1:
        raise ValueError(f"k: expected the number of directions, 1 or more, got {k!r}; k=2 is a good start")
    if nodes is not None and k > max(nodes, MOST_DIRECTIONS):
        raise ValueError(
            f"k: expected at most {max(nodes, MOST_DIRECTIONS)} directions for graphs of {nodes} nodes, got {k}; a "
            "connected graph of n nodes has n - 1"
        )
    check_option("normalization", normalization, NORMALIZATIONS)
