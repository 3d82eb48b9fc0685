"""Directions of a graph: its low-frequency Laplacian eigenvectors, component by component."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from torch import Tensor

from dgn.graph import Graph
from dgn.graph.checks import check_result
from dgn.graph.components import components
from dgn.spectral.degeneracy import REPEATED, bounds, canonicalize, random_rotations, relative_gap, repeated
from dgn.spectral.laplacians import Normalization, adjacency, check_request, normalized, weighted_graph
from dgn.spectral.sign import canonical_sign
from dgn.spectral.solvers import select
from dgn.spectral.solvers.components import solve_large, solve_small, store
from dgn.spectral.solvers.dense import Solution
from dgn.spectral.spectrum import (
    Spectrum,
    difference_errors,
    divide_by_scale,
    rounding_of,
    scale_by_degree,
    silence,
    vector_errors,
    vector_rounding,
)


@dataclass(frozen=True, eq=False, repr=False)
class Directions:
    """The first k non-trivial eigenvectors of every connected component.

    Shapes:
        - ``potential`` [N, k]: column k - 1 is direction k; 0 on components that have no such vector.
        - ``eigenvalues`` [C, k] float64, ascending; NaN where there is no such vector.
        - ``gap`` [C, k] float64: relative gap to the next eigenvalue, in [0, 1]; near 0, the basis of the
          eigenspace is arbitrary. The last vector of a component has gap 1, one that does not exist NaN.
        - ``component`` [N]: the component of each node, numbered by first node.
        - ``sign_is_canonical`` [C, k]: false where a symmetry of the graph maps the vector to its negative, and where
          the eigenvalue is repeated, so that the sign is arbitrary.
        - ``next_vector`` [N, 1]: eigenvector k + 1, accurate in its eigenvalue only; a start vector of ``update``.
    """

    potential: Tensor
    eigenvalues: Tensor
    gap: Tensor
    component: Tensor
    sign_is_canonical: Tensor
    next_vector: Tensor | None = None

    def __repr__(self) -> str:
        (nodes, k), components = self.potential.shape, len(self.eigenvalues)
        return f"Directions(nodes={nodes}, components={components}, k={k}, repeated={int(self.repeated().sum())})"

    def repeated(self, tolerance: float = REPEATED) -> Tensor:
        """Whether each eigenvalue occurs more than once in its component. [C, k]"""
        return repeated(self.gap, tolerance)

    def first(self, count: int) -> "Directions":
        """The first ``count`` of these directions."""
        columns = (getattr(self, name)[:, :count] for name in ("potential", "eigenvalues", "gap", "sign_is_canonical"))
        potential, eigenvalues, gap, sign_is_canonical = columns
        return Directions(potential, eigenvalues, gap, self.component, sign_is_canonical)

    def resample(self, generator: torch.Generator | None, tolerance: float = REPEATED) -> "Directions":
        """The same directions with a random orthonormal basis in every repeated eigenspace (section B.4).

        Vectors of equal eigenvalue are mixed by a uniformly random orthogonal matrix; all others stay as they are.
        An eigenspace that reaches beyond the last column is sampled within the columns at hand: take those of
        :func:`whole_eigenspaces`, resample, then keep the first columns. Without a generator, numbers come from
        PyTorch's global one.
        """
        gap = self.gap if generator is None else self.gap.to(generator.device)
        rotation = random_rotations(gap, generator, tolerance).to(self.potential)
        mixed = torch.einsum("nk,nkl->nl", self.potential, rotation[self.component])
        return replace(self, potential=mixed, sign_is_canonical=self.sign_is_canonical & ~self.repeated(tolerance))

    def update(
        self,
        edge_index: Any,
        num_nodes: int | None = None,
        normalization: Normalization = None,
        edge_weight: Tensor | None = None,
    ) -> "Directions":
        """The directions of a changed graph, with a warm start from these.

        As :func:`directions` with the same arguments, to the same accuracy, but large components start from the
        current directions. Edges may be added, removed or reweighted, components merged or split, and nodes appended.
        The fewer edges changed, the faster; small components are solved from scratch.

        >>> path, cycle = torch.tensor([[0, 1, 2], [1, 2, 3]]), torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
        >>> directions(path, k=1).update(cycle).eigenvalues.round(decimals=6).tolist()
        [[2.0]]
        """
        check_request(self.potential.size(1), normalization)
        graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
        added = graph.num_nodes - len(self.potential)
        if added < 0:
            raise ValueError(
                f"edge_index: expected at least the {len(self.potential)} nodes of these directions, got "
                f"{graph.num_nodes}; pass num_nodes, or call directions where nodes were removed"
            )
        start_vectors = self.potential
        if self.next_vector is not None:
            start_vectors = torch.cat([start_vectors, self.next_vector], dim=1)
        start = np.pad(start_vectors.double().cpu().numpy(), ((0, added), (0, 0)))
        k, many = self.potential.size(1), graph.num_nodes >= select.MANY_NODES
        return _directions(graph, edge_weight, k, normalization, start, many)


def directions(
    edge_index: Any,
    num_nodes: int | None = None,
    k: int = 2,
    normalization: Normalization = None,
    edge_weight: Tensor | None = None,
) -> Directions:
    r"""The first k non-trivial Laplacian eigenvectors of each connected component (sections 2.5 and 2.6).

    .. math:: L \phi_k = \lambda_k \phi_k, \qquad 0 < \lambda_1 \le \lambda_2 \le \dots

    Each component is solved separately in float64: directly up to 300 nodes, by a block method on a sparse
    factorisation above, which is exact up to 4000 nodes and approximate beyond. Columns are orthonormal on each
    component; with ``"rw"`` in the inner product weighted by degree over mean degree,
    :math:`\sum_i \frac{d_i}{\bar d} \phi_k(i) \phi_l(i)`, in which :math:`D^{-1} L` is symmetric.

    Laws:
        - the same input gives the same numbers on every run;
        - relabelling the nodes relabels the result, wherever ``repeated()`` is false and ``sign_is_canonical`` is true;
        - the result for a graph in a batch is that for the graph alone, also the basis of a repeated eigenspace
          (:func:`dgn.spectral.degeneracy.canonical_basis`).

    Edge cases: a component of n nodes has n - 1 such vectors; further columns are 0. One node, no edges and no nodes
    give zeros. A directed graph is symmetrised, self-loops do not count, parallel edges add up
    (:func:`dgn.laplacian`). A PyG ``Data`` brings its ``edge_weight``, if it has one.

    Shapes:
        ``edge_index`` [2, E] (or ``Graph`` or PyG ``Data``), ``edge_weight`` [E]; see :class:`Directions`.

    >>> path = torch.tensor([[0, 1], [1, 2]])
    >>> d = directions(path, 3, k=2)
    >>> d.potential.round(decimals=3).abs().tolist()
    [[0.707, 0.408], [0.0, 0.816], [0.707, 0.408]]
    >>> d.eigenvalues.round(decimals=6).tolist(), d.sign_is_canonical.tolist()
    ([[1.0, 3.0]], [[False, True]])
    """
    check_request(k, normalization)
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    check_request(k, normalization, graph.num_nodes)
    return _directions(graph, edge_weight, k, normalization, None, graph.num_nodes >= select.MANY_NODES)


def whole_eigenspaces(
    edge_index: Any,
    num_nodes: int | None = None,
    k: int = 2,
    normalization: Normalization = None,
    edge_weight: Tensor | None = None,
) -> Directions:
    """:func:`directions` with as many columns, at least k, as the eigenspaces of the first k vectors have.

    >>> square = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    >>> whole_eigenspaces(square, k=1)
    Directions(nodes=4, components=1, k=2, repeated=2)
    """
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    vectors, count = directions(graph, None, k, normalization, edge_weight), k
    while bool((vectors.gap[:, k - 1 :] <= REPEATED).all(dim=1).any()):  # false where a vector does not exist
        count *= 2
        vectors = directions(graph, None, count, normalization, edge_weight)
    ends = (vectors.gap[:, k - 1 :] <= REPEATED).long().cumprod(dim=1).sum(dim=1)
    return vectors.first(k + int(ends.max() if len(ends) else 0))


def directions_of_many(graph: Graph, k: int, normalization: Normalization, edge_weight: Tensor | None) -> Directions:
    """:func:`directions` with one solver for any number of graphs: the basis does not depend on the batch."""
    check_request(k, normalization)
    graph, edge_weight = weighted_graph(graph, None, edge_weight)
    return _directions(graph, edge_weight, k, normalization, None, True)


def _directions(
    graph: Graph,
    edge_weight: Tensor | None,
    k: int,
    normalization: Normalization,
    start: NDArray[np.float64] | None,
    many: bool,
) -> Directions:
    """Directions of a checked graph; large components start from the vectors ``start`` [N, s], if given.

    ``many`` as in :func:`dgn.spectral.solvers.select.choose_solver`.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        spectrum = _spectrum(graph, edge_weight, k + 1, normalization, start, many)
    if np.isinf(spectrum.values).any():
        check_result("eigenvalues", torch.from_numpy(spectrum.values).nan_to_num(nan=0.0, posinf=torch.inf))
    gap = relative_gap(spectrum.values, spectrum.sizes, spectrum.rounding)
    simple = ~repeated(gap)
    sign = np.where(simple, spectrum.sign[:, :k], 1.0)  # a canonical basis has signs of its own
    device = graph.edge_index.device
    return Directions(
        potential=torch.from_numpy(spectrum.vectors[:, :k] * sign[spectrum.component]).to(device),
        eigenvalues=torch.from_numpy(spectrum.values)[:, :k].contiguous().to(device),
        gap=torch.from_numpy(gap).to(device),
        component=torch.from_numpy(spectrum.component).to(device),
        sign_is_canonical=torch.from_numpy(spectrum.sign_is_canonical[:, :k] & simple).to(device),
        next_vector=torch.from_numpy(spectrum.vectors[:, k:]).contiguous().to(device),
    )


def _spectrum(
    graph: Graph,
    edge_weight: Tensor | None,
    count: int,
    normalization: Normalization,
    start: NDArray[np.float64] | None,
    many: bool,
) -> Spectrum:
    """The first ``count`` non-trivial eigenpairs of all components, with their signs."""
    if select.choose_solver(1, count, many, select.has_numba()) == "direct":
        from dgn.spectral.solvers.direct import solve_edges

        spectrum = solve_edges(graph, edge_weight, count, normalization, select.largest_dense(count))
        if spectrum is not None:
            return spectrum
    matrix = adjacency(graph, edge_weight)
    label = components(matrix)
    sizes = np.bincount(label)
    scale = divide_by_scale(matrix, label, len(sizes))
    degree = np.asarray(matrix.sum(axis=1))
    rounding = rounding_of(degree, label, len(sizes), bool(normalization))
    values, vectors, error = _solve(matrix, degree, rounding, label, sizes, count, normalization, start, many)
    error += vector_rounding(values, rounding)
    if normalization == "rw":
        error = scale_by_degree(vectors, degree, label, sizes) * error
    if normalization is None:
        values, rounding = values * scale[:, None], rounding * scale
    return Spectrum(label, sizes, values, rounding, vectors, *canonical_sign(vectors, degree, label, len(sizes), error))


def _solve(
    matrix: csr_array,
    degree: NDArray[np.float64],
    rounding: NDArray[np.float64],
    label: NDArray[np.int64],
    sizes: NDArray[np.int64],
    count: int,
    normalization: Normalization,
    start: NDArray[np.float64] | None,
    many: bool,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Eigenvalues [C, count] and vectors [N, count], NaN and 0 where there are none; errors [C, count] of iteration."""
    trivial = np.sqrt(degree) if normalization else np.ones(len(label))
    symmetric = normalized(matrix, "sym" if normalization else None)
    largest, numba = select.largest_dense(count), select.has_numba()
    solver = select.choose_solver(1, count, many, numba)
    values, vectors = solve_small(matrix, symmetric, trivial, label, sizes, largest, count, bool(normalization), solver)
    error = np.zeros_like(values)  # of iterative solvers
    for big in np.flatnonzero(sizes > largest):
        nodes = np.flatnonzero(label == big)
        unit = trivial[nodes] / np.linalg.norm(trivial[nodes])
        warm = None if start is None else start[nodes] * unit[:, None] if normalization == "rw" else start[nodes]
        block = symmetric[nodes, :][:, nodes]
        solver = select.choose_solver(len(nodes), count, many, numba)
        edges = matrix[nodes, :][:, nodes]
        pairs = solve_large(edges, block, unit, count, solver, warm)
        error[big, :-1] = vector_errors(block, *pairs)
        whole = bounds(pairs[0], rounding[big])[-2]  # the last eigenspace may go on
        canonicalize(pairs[0][:whole], pairs[1][:, :whole], rounding[big], whole)
        silence(block, *pairs, trivial[nodes, None] * difference_errors(edges, block, *pairs))
        store(Solution(np.array([big]), nodes[None], pairs[0][None], pairs[1][None]), values, vectors)
    return values, vectors, error
