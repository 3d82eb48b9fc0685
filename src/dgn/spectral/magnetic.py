"""The magnetic Laplacian of a directed graph: complex eigenvectors whose phases follow the edges."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array, diags_array, eye_array
from scipy.sparse.linalg import LinearOperator, eigsh, splu
from torch import Tensor

from dgn.graph import Graph
from dgn.graph.checks import check_option, check_result
from dgn.graph.components import components, members
from dgn.spectral.degeneracy import REPEATED, relative_gap, repeated
from dgn.spectral.laplacians import adjacency, check_request, weighted_graph
from dgn.spectral.solvers.select import largest_dense
from dgn.spectral.spectrum import divide_by_scale, rounding_of

Complex = NDArray[np.complex128]

BATCH_ENTRIES = 1 << 23  # 128 MiB of complex128 per batched solve
SHIFT = 1e-6  # below the lowest eigenvalue, relative to the norm
ACCURACY = 1e-8  # largest residual, relative to the norm


@dataclass(frozen=True, eq=False, repr=False)
class MagneticDirections:
    """The first k eigenvectors of the magnetic Laplacian of every connected component.

    Shapes:
        - ``potential`` [N, k] complex128: orthonormal on each component, 0 where it has no such vector.
        - ``eigenvalues`` [C, k] float64, ascending; NaN where there is no such vector.
        - ``gap`` [C, k] float64: relative gap to the next eigenvalue, as in :class:`dgn.Directions`.
        - ``component`` [N]: the component of each node, numbered by first node.
    """

    potential: Tensor
    eigenvalues: Tensor
    gap: Tensor
    component: Tensor

    def __repr__(self) -> str:
        (nodes, k), components = self.potential.shape, len(self.eigenvalues)
        return f"MagneticDirections({nodes=}, {components=}, {k=}, repeated={int(self.repeated().sum())})"

    def repeated(self, tolerance: float = REPEATED) -> Tensor:
        """Whether each eigenvalue occurs more than once in its component, so that its basis is arbitrary. [C, k]"""
        return repeated(self.gap, tolerance)


def magnetic_laplacian(
    edge_index: Any,
    num_nodes: int | None = None,
    q: float = 0.25,
    normalization: Literal["sym"] | None = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    r"""The magnetic Laplacian of a directed graph as a sparse Hermitian matrix.

    .. math::
        L^{(q)} = D - A \circ e^{-2 \pi \mathrm{i} q \, o}, \qquad
        o_{ij} = \frac{W_{i \to j} - W_{j \to i}}{W_{i \to j} + W_{j \to i}}

    A and D are those of :func:`dgn.laplacian`, and o is 1 on an edge from i to j, -1 on one from j to i, 0 on an edge
    in both directions. ``normalization="sym"`` is :math:`D^{-1/2} L^{(q)} D^{-1/2}`.

    Laws: Hermitian and positive semi-definite; q = 0 is the Laplacian; reversing all edges conjugates it; the
    eigenvalue 0 occurs once for each component around whose cycles the phases add up to whole turns, such as a tree.

    Shapes:
        ``edge_index`` [2, E], ``edge_weight`` [E]; returns sparse [N, N], complex128.

    >>> matrix = magnetic_laplacian(torch.tensor([[0], [1]])).to_dense()  # 0 -> 1
    >>> matrix.real.round(decimals=3).abs().tolist(), matrix.imag.round(decimals=3).abs().tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]])
    """
    _check_charge(q, normalization)
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    weights = adjacency(graph, edge_weight)
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        matrix = coo_array(_magnetic(graph, weights, edge_weight, q, normalization))
    check_result("magnetic_laplacian", torch.view_as_real(torch.from_numpy(matrix.data)))
    return torch.sparse_coo_tensor(
        torch.as_tensor(np.stack(matrix.coords), dtype=torch.long),
        torch.from_numpy(matrix.data),
        (graph.num_nodes, graph.num_nodes),
        device=graph.edge_index.device,
        check_invariants=True,
    ).coalesce()


def magnetic_directions(
    edge_index: Any,
    num_nodes: int | None = None,
    k: int = 1,
    q: float = 0.25,
    normalization: Literal["sym"] | None = None,
    edge_weight: Tensor | None = None,
) -> MagneticDirections:
    r"""The first k eigenvectors of the magnetic Laplacian, component by component (arXiv:2102.11391).

    .. math:: L^{(q)} u_k = \lambda_k u_k, \qquad 0 \le \lambda_1 \le \lambda_2 \le \dots

    Where the edges agree, the phase of :math:`u_1` rises by :math:`2 \pi q` along each one. Its differences
    (:func:`dgn.phase_difference`) are a field, and do not depend on the arbitrary phase of a vector. No vector is
    dropped: for q > 0 the lowest one is not constant. The largest entry of a vector is made real.

    Laws: the field is that of the graph alone in a batch, and follows a relabelling of the nodes, where ``repeated()``
    is false; reversing all edges changes its sign; for :math:`q \to 0`, the phase of :math:`u_1` divided by
    :math:`2 \pi q` tends to :func:`dgn.flow_potential` of the orientation o with weights A, up to a constant.

    Edge cases: a component of n nodes has n vectors; further columns are 0. Components of up to 300 nodes are solved
    densely, all of one size at once, larger ones by Lanczos iteration on an exact factorisation, whose time and memory
    are those of its fill-in.

    Shapes:
        ``edge_index`` [2, E] (or ``Graph`` or PyG ``Data``), ``edge_weight`` [E]; see :class:`MagneticDirections`.

    >>> chain = torch.tensor([[0, 1], [1, 2]])  # 0 -> 1 -> 2
    >>> vectors = magnetic_directions(chain, q=0.125)
    >>> vectors.eigenvalues.abs().round(decimals=6).tolist()
    [[0.0]]
    >>> (vectors.potential[:, 0] / vectors.potential[0, 0]).angle().div(torch.pi).round(decimals=6).tolist()
    [0.0, 0.25, 0.5]
    """
    _check_charge(q, normalization)
    check_request(k, None)
    graph, edge_weight = weighted_graph(edge_index, num_nodes, edge_weight)
    check_request(k, None, graph.num_nodes)
    weights = adjacency(graph, edge_weight)
    label = components(weights)
    sizes = np.bincount(label)
    scale = divide_by_scale(weights, label, len(sizes))
    matrix = _magnetic(graph, weights, edge_weight, q, normalization)
    values, vectors = np.full((len(sizes), k + 1), np.nan), np.zeros((graph.num_nodes, k + 1), dtype=np.complex128)
    largest = largest_dense(k + 1)
    _solve_small(matrix, label, largest, values, vectors)
    for big in np.flatnonzero(sizes > largest):
        nodes = np.flatnonzero(label == big)
        values[big], vectors[nodes] = _solve_large(csr_array(matrix[nodes, :][:, nodes]), k + 1)
    values = np.maximum(values, 0.0)  # but for rounding; keeps NaN
    rounding = rounding_of(np.asarray(weights.sum(axis=1)), label, len(sizes), bool(normalization))
    gap = relative_gap(values, sizes + 1, rounding)  # of n vectors the last one is number n
    eigenvalues = torch.from_numpy(values if normalization else values * scale[:, None])
    check_result("eigenvalues", eigenvalues.nan_to_num(nan=0.0, posinf=torch.inf))
    device = graph.edge_index.device
    return MagneticDirections(
        potential=torch.from_numpy(vectors[:, :k].copy()).to(device),
        eigenvalues=eigenvalues[:, :k].contiguous().to(device),
        gap=torch.from_numpy(gap).to(device),
        component=torch.from_numpy(label).to(device),
    )


def _check_charge(q: float, normalization: str | None) -> None:
    check_option("normalization", normalization, (None, "sym"))
    if not 0 <= q <= 0.5:
        raise ValueError(
            f"q: expected a fraction of a turn for each edge, from 0 to 0.5, got {q}; 0.25 tells the two directions of "
            "an edge apart best, 0 and 0.5 not at all"
        )


def _magnetic(
    graph: Graph, weights: csr_array, edge_weight: Tensor | None, q: float, normalization: str | None
) -> csr_array:
    """The magnetic Laplacian with the symmetric ``weights``, and phases by the orientation of the edges."""
    turned = _phases(graph, edge_weight, q).multiply(weights)
    degree = np.asarray(weights.sum(axis=1))
    matrix = diags_array(degree.astype(np.complex128)) - turned
    if normalization is None:
        return csr_array(matrix)
    root = diags_array(np.sqrt(np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)))
    return csr_array(root @ matrix @ root)


def _phases(graph: Graph, edge_weight: Tensor | None, q: float) -> csr_array:
    """exp(-2 pi i q o), o being 1 where all weight runs from the row to the column, -1 where it runs back."""
    weight = torch.ones(graph.num_edges) if edge_weight is None else edge_weight.detach()
    (source, target), data = graph.edge_index.cpu().numpy(), weight.cpu().double().numpy()
    # Weights from row to column add up in the real part, those from column to row in the imaginary part.
    ends = np.concatenate([source, target]), np.concatenate([target, source])
    both = csr_array((np.concatenate([data, 1j * data]), ends), shape=(graph.num_nodes, graph.num_nodes))
    both.sum_duplicates()
    away, back = both.data.real, both.data.imag
    larger = np.maximum(away, back)
    away, back = (np.divide(part, larger, out=np.zeros_like(part), where=larger > 0) for part in (away, back))
    both.data = np.exp(-2j * math.pi * q * (away - back) / np.maximum(away + back, 1.0))
    return both


def _solve_small(
    matrix: csr_array, label: NDArray[np.int64], largest: int, values: NDArray[np.float64], vectors: Complex
) -> None:
    """Write the lowest eigenpairs of all components of up to ``largest`` nodes, solved together by size."""
    size, start, nodes, place = members(label)
    entries = coo_array(matrix)
    row, column = entries.coords
    slot = np.zeros(len(size), dtype=np.int64)
    for n in np.unique(size[size <= largest]):
        of_size = np.flatnonzero(size == n)
        step = max(1, BATCH_ENTRIES // int(n * n))
        for chunk in np.split(of_size, range(step, len(of_size), step)):
            slot[:] = -1
            slot[chunk] = np.arange(len(chunk))
            entry = np.flatnonzero(slot[label[row]] >= 0)
            i, j = row[entry], column[entry]
            dense = np.zeros((len(chunk), n, n), dtype=np.complex128)
            dense[slot[label[i]], place[i], place[j]] = entries.data[entry]
            eigenvalues, basis = (result.numpy() for result in torch.linalg.eigh(torch.from_numpy(dense)))
            count = min(int(n), values.shape[1])
            values[chunk, :count] = eigenvalues[:, :count]
            where = nodes[start[chunk][:, None] + np.arange(n)]
            vectors[where, :count] = _with_real_peak(basis[:, :, :count])


def _solve_large(matrix: csr_array, count: int) -> tuple[NDArray[np.float64], Complex]:
    """The lowest eigenpairs of one connected component, by Lanczos iteration on an exact factorisation."""
    n, norm = matrix.shape[0], 2 * float(np.abs(matrix.diagonal()).max())
    shifted = (matrix + SHIFT * norm * eye_array(n)).tocsc()
    factor = splu(shifted, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    inverse = LinearOperator((n, n), matvec=factor.solve, dtype=np.complex128)
    begin = np.random.default_rng(0).standard_normal((2, n))
    values, vectors = eigsh(
        matrix, count, sigma=-SHIFT * norm, OPinv=inverse, v0=begin[0] + 1j * begin[1], ncv=max(2 * count + 1, 20)
    )
    order = values.argsort()
    values, vectors = values[order], np.linalg.qr(vectors[:, order])[0]
    worst = float(np.linalg.norm(matrix @ vectors - vectors * values, axis=0).max()) / norm
    if not worst <= ACCURACY:
        raise ArithmeticError(
            f"magnetic_directions: expected residuals below {ACCURACY} times the norm for a component of {n} nodes, "
            f"got {worst:.1e}; compute fewer directions, or drop the edges of negligible weight"
        )
    return values, _with_real_peak(vectors[None])[0]


def _with_real_peak(vectors: Complex) -> Complex:
    """Vectors [b, n, m] whose first entry of largest magnitude is real and positive."""
    size = np.abs(vectors)
    peak = (size >= (1 - 1e-8) * size.max(axis=1, keepdims=True)).argmax(axis=1)[:, None]
    top = np.take_along_axis(vectors, peak, axis=1)
    turned: Complex = vectors * (np.conj(top) / np.abs(top))
    return turned
