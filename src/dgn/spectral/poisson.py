"""The Poisson equation of a graph: the potential with a prescribed Laplacian, and that of a flow."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from dgn.graph import Graph
from dgn.graph.checks import check_package, check_result, check_rows
from dgn.graph.components import components
from dgn.spectral.laplacians import adjacency, normalized, weighted_graph
from dgn.spectral.spectrum import divide_by_scale, unit_scale

Array = NDArray[np.float64]

BALANCE = 1e-6  # largest sum of a source over a component, relative to its magnitudes, that may be rounding
ITERATIONS = 1000


def solve_laplacian(
    edge_index: Any,
    source: Tensor,
    num_nodes: int | None = None,
    edge_weight: Tensor | None = None,
    tolerance: float = 1e-8,
) -> Tensor:
    r"""Solve :math:`L x = b` for the combinatorial Laplacian L = D - A, in nearly linear time; needs Numba.

    With weights as conductances and b the current sent into each node, x are the voltages. Conjugate gradients,
    preconditioned by an approximate Cholesky factor, until :math:`\|L x - b\| \le` ``tolerance`` :math:`\|b\|` for
    each column.

    Laws:
        - :math:`L x = b`, and x adds up to 0 on each component, which makes it unique;
        - linear in b to the tolerance; bitwise reproducible.

    Edge cases: b must add up to 0 on each component, else there is no solution; a
    remainder of the size of float32 rounding is subtracted. A node without edges gets 0.

    Shapes:
        ``edge_index`` [2, E] (or ``Graph`` or PyG ``Data``), ``source`` [N] or [N, m], ``edge_weight`` [E]; returns
        the shape of ``source``, float64.

    >>> path = torch.tensor([[0, 1], [1, 2]])
    >>> solve_laplacian(path, torch.tensor([1.0, 0.0, -1.0])).round(decimals=6).tolist()
    [1.0, 0.0, -1.0]
    """
    if not tolerance > 0:
        raise ValueError(f"tolerance: expected a relative residual above 0, got {tolerance}; try 1e-8")
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    check_rows("source", source, graph.num_nodes, "node")
    matrix = adjacency(graph, edge_weight)
    label = components(matrix)
    member = _membership(label)
    right = source.detach().cpu().double().numpy().reshape(graph.num_nodes, math.prod(source.shape[1:]))
    if (np.abs(member.T @ right) > BALANCE * (member.T @ np.abs(right))).any():
        raise ValueError(
            "source: expected a sum of 0 on each connected component, got another sum, for which there is no "
            "solution; subtract the mean of each component"
        )
    return check_result("solve_laplacian", _solve(matrix, label, right, tolerance)).view(source.shape).to(source.device)


def _solve(matrix: csr_array, label: NDArray[np.int64], right: Array, tolerance: float) -> Tensor:
    """The solution for the columns of ``right``, less what their sums on components differ from 0."""
    check_package("solve_laplacian", "numba")
    if len(right) == 0:
        return torch.from_numpy(right)
    member = _membership(label)
    scale = divide_by_scale(matrix, label, member.shape[1])
    # Columns are scaled, too, to the range of the preconditioner's float32.
    column = unit_scale(np.abs(right).ravel(), np.tile(np.arange(right.shape[1]), len(right)), right.shape[1])
    solution = _conjugate_gradients(matrix, member, right / column, tolerance)
    with np.errstate(over="ignore"):  # refused below
        solution = solution * column / scale[label][:, None]
    return torch.from_numpy(solution)


def flow_potential(
    field: Tensor,
    edge_index: Any,
    num_nodes: int | None = None,
    edge_weight: Tensor | None = None,
    tolerance: float = 1e-12,
) -> Tensor:
    r"""The potential whose gradient is nearest to a field: least squares over the edges; needs Numba.

    .. math:: \min_\phi \sum_{(i,j)} c_{ij} (\phi_j - \phi_i - F_{ij})^2

    It solves the Poisson equation :math:`L \phi = b`, where each edge (j, i) adds :math:`c_{ij} F_{ij}` to :math:`b_j`
    and subtracts it from :math:`b_i`; for an antisymmetric field on an undirected graph this is
    :math:`L \phi = -\mathrm{div} F`. ``edge_weight`` is c, the confidence in each edge. Edges may be listed once or
    in both directions. HodgeRank (arXiv:0811.1067): the ranking nearest to pairwise comparisons.

    Laws: :math:`\phi` adds up to 0 on each component; linear in F; the inverse of the gradient,
    :math:`\phi(\nabla x) = x` less its mean; on a directed tree with unit flow, depth less its mean.
    Self-loops and edges of weight 0 do not count.

    Shapes:
        ``field`` [E, K] or [E], ``edge_weight`` [E]; returns [N, K] or [N], float64.

    >>> chain = torch.tensor([[1, 2, 2], [0, 1, 0]])  # at 0 towards 1, at 1 towards 2, at 0 towards 2
    >>> flow_potential(torch.tensor([1.0, 1.0, 2.0]), chain).round(decimals=6).tolist()
    [-1.0, 0.0, 1.0]
    """
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    check_rows("field", field, graph.num_edges, "edge")
    flow = field.detach().cpu().double()
    weight = torch.ones(graph.num_edges) if edge_weight is None else edge_weight.detach().cpu()
    inner = graph.edge_index.cpu()
    flow = flow * torch.where(inner[0] == inner[1], 0.0, weight.double()).view(-1, *[1] * (flow.dim() - 1))
    right = flow.new_zeros(graph.num_nodes, *flow.shape[1:]).index_add(0, inner[0], flow).index_add(0, inner[1], -flow)
    check_result("flow_potential", right)
    # Each edge in both directions: the Laplacian then counts it as often as it is listed.
    both = Graph(torch.cat([inner, inner.flip(0)], dim=1), graph.num_nodes)
    matrix = adjacency(both, torch.cat([weight, weight]))
    columns = right.view(graph.num_nodes, math.prod(flow.shape[1:])).numpy()
    potential = _solve(matrix, components(matrix), columns, tolerance)
    return check_result("flow_potential", potential).view(right.shape).to(field.device)


def _conjugate_gradients(matrix: csr_array, member: csr_array, right: Array, tolerance: float) -> Array:
    """Conjugate gradients on all columns at once, with a step length per column; 0 for a converged one."""
    from dgn.spectral.solvers.cholesky import approximate_cholesky, near_numbering, renumbered

    order = near_numbering(matrix)
    factor = approximate_cholesky(renumbered(matrix, order))
    laplacian, member, right = renumbered(normalized(matrix, None), order), csr_array(member[order]), right[order]
    mean = csr_array(member / np.maximum(member.sum(axis=0), 1))
    balanced = right - mean @ (member.T @ right)
    residual = balanced.copy()
    x = np.zeros_like(residual)
    search, previous = np.zeros_like(residual), np.ones(residual.shape[1])
    goal = tolerance * np.linalg.norm(residual, axis=0)
    for _ in range(ITERATIONS):
        open_columns = ~(np.linalg.norm(residual, axis=0) <= goal)
        if not open_columns.any():
            residual = balanced - laplacian @ x  # the updated residual has accumulated rounding
            search[:] = 0
            open_columns = ~(np.linalg.norm(residual, axis=0) <= goal)
        if not open_columns.any():
            solution: Array = np.empty_like(x)
            solution[order] = x - mean @ (member.T @ x)
            return solution
        step = factor.solve(residual)
        step -= mean @ (member.T @ step)
        now = np.einsum("nm,nm->m", residual, step)
        search = step + search * (now / previous)
        image = laplacian @ search
        length = np.divide(now, np.einsum("nm,nm->m", search, image), out=np.zeros_like(now), where=open_columns)
        x += length * search
        residual -= length * image
        previous = np.where(open_columns, now, 1.0)
    raise ArithmeticError(
        f"solve_laplacian: expected a residual below {tolerance} within {ITERATIONS} iterations, got "
        f"{(tolerance * np.linalg.norm(residual, axis=0)[open_columns] / goal[open_columns]).max():.1e}; pass a "
        "larger tolerance"
    )


def _membership(component: NDArray[np.int64]) -> csr_array:
    """The matrix [N, C] with a 1 where a node belongs to a component."""
    n = len(component)
    return csr_array((np.ones(n), component, np.arange(n + 1)), shape=(n, int(component.max(initial=-1)) + 1))
