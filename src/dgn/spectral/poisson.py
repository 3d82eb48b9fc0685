"""The Poisson equation of a graph: the potential with a prescribed Laplacian."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from dgn.graph.checks import check_result, check_rows
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
    if graph.num_nodes == 0:
        return source.double()
    scale = divide_by_scale(matrix, label, member.shape[1])
    # Columns are scaled, too, to the range of the preconditioner's float32.
    column = unit_scale(np.abs(right).ravel(), np.tile(np.arange(right.shape[1]), len(right)), right.shape[1])
    solution = _conjugate_gradients(matrix, member, right / column, tolerance)
    with np.errstate(over="ignore"):  # refused below
        solution = solution * column / scale[label][:, None]
    return check_result("solve_laplacian", torch.from_numpy(solution)).view(source.shape).to(source.device)


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
