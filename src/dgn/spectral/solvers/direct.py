"""The lowest eigenvectors of many small components (Numba), eight components of one size at once."""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from torch import Tensor

from dgn.graph import Graph
from dgn.graph.components import Members, members
from dgn.kernels.numba.connected_graph import connected_directions
from dgn.kernels.numba.eigenbasis import canonicalize
from dgn.kernels.numba.eigh import solve_tasks
from dgn.kernels.numba.sign import signs
from dgn.kernels.numba.simd_float64 import LANES
from dgn.kernels.numba.threads import for_chunks
from dgn.kernels.numba.union_find import connected, sort_edges
from dgn.spectral.degeneracy import PIVOT, REPEATED
from dgn.spectral.laplacians import Normalization
from dgn.spectral.sign import NEARLY, UNDECIDED
from dgn.spectral.solvers.dense import check_lowest
from dgn.spectral.spectrum import ROUNDING, Spectrum, rounding_of, scale_by_degree, unit_scale, vector_rounding

BATCHED_LIMIT = 48  # nodes; up to here eight matrices fit into the cache and are solved together

Array = NDArray[np.float64]
Integers = NDArray[np.int64]


class Edges(NamedTuple):
    """Edges from ``source`` to ``target`` [E]; ``weight`` [E], or empty where every edge has weight 1."""

    source: Integers
    target: Integers
    weight: Array

    @staticmethod
    def of(adjacency: csr_array) -> "Edges":
        """The entries of an adjacency matrix."""
        entries = coo_array(adjacency)
        row, column = entries.coords
        return Edges(column.astype(np.int64), row.astype(np.int64), entries.data)


def solve_edges(
    graph: Graph, edge_weight: Tensor | None, count: int, normalization: Normalization, largest: int
) -> Spectrum | None:
    """The lowest eigenpairs of all components and their signs; ``None`` if one has more than ``largest`` nodes.

    The spectrum behind :func:`dgn.directions`, without a sparse matrix.
    """
    source, target = np.ascontiguousarray(graph.edge_index.cpu().numpy())
    weight = np.zeros(0) if edge_weight is None else edge_weight.detach().cpu().double().numpy()
    edges = Edges(source, target, np.ascontiguousarray(weight))
    component = connected(*edges, graph.num_nodes)
    group = members(component)
    if group.size.max(initial=0) > largest:
        return None
    scale = np.ones(len(group.size))
    if edge_weight is not None:
        scale = unit_scale(np.where(source == target, 0, weight), component[target], len(group.size))
        edges = edges._replace(weight=weight / scale[component[target]])
    several = np.flatnonzero(group.size > 1)
    values, vectors, degree, rounding = solve_direct(edges, component, group, several, count, bool(normalization))
    error = vector_rounding(values, rounding)
    if normalization == "rw":
        error *= scale_by_degree(vectors, degree, component, group.size)
    if normalization is None:
        values, rounding = values * scale[:, None], rounding * scale
    sign, decided = np.empty(values.shape), np.empty(values.shape, dtype=np.bool_)
    arrays = *group[:3], vectors, degree, error, UNDECIDED, NEARLY, sign, decided
    for_chunks(lambda first, last: signs(first, last, *arrays), len(values), 256)
    return Spectrum(component, group.size, values, rounding, vectors, sign, decided)


class ConnectedDirections(NamedTuple):
    """``potential`` [N, k], ``field`` [E, k] and ``gap`` [N, k] of a connected graph, float32."""

    potential: NDArray[np.float32]
    field: NDArray[np.float32]
    gap: NDArray[np.float32]


def solve_connected(graph: Graph, k: int, symmetric: bool) -> ConnectedDirections | None:
    """The directions of a small graph without weights, to the same bits as :func:`solve_edges`, in one call.

    ``None`` if it is not connected, has no edge, or has an eigenspace that goes on beyond vector k + 1.
    """
    if graph.num_nodes < 2:
        return None
    source, target = np.ascontiguousarray(graph.edge_index.numpy())
    noise = _noise(graph.num_nodes * (k + 1))
    solved = connected_directions(
        source,
        target,
        graph.num_nodes,
        k,
        symmetric,
        BATCHED_LIMIT,
        noise,
        ROUNDING,
        REPEATED,
        PIVOT,
        UNDECIDED,
        NEARLY,
    )
    return ConnectedDirections(*solved) if len(solved[0]) else None


def solve_direct(
    edges: Edges, component: Integers, group: Members, chosen: Integers, count: int, symmetric: bool
) -> tuple[Array, Array, Array, Array]:
    r"""The lowest non-trivial eigenpairs of some components, directly from the edges.

    The matrix is D - A with :math:`A_{ij} = \max(W_{ij}, W_{ji})`, or with ``symmetric``
    :math:`D^{-1/2} (D - A) D^{-1/2}` (:func:`dgn.laplacian`). ``chosen`` are the components to solve, of two or more
    nodes each.

    Components are independent: the result is bitwise identical for any number of threads and any batch. A repeated
    eigenspace has its canonical basis, also where it goes on beyond the last column; but not that of the last column
    alone.

    ``component`` [N] numbers the component of each node, and ``group`` has its members. Returns values [C, count] and
    vectors [N, count], with NaN and 0 where there are none, the degree [N], 0 on components that were not chosen, and
    the rounding of the values [C].
    """
    values, vectors, degree, more = _lowest(edges, component, group, chosen, count, symmetric)
    rounding = rounding_of(degree, component, len(values), symmetric)
    arrays = chosen, *group[:3], values, rounding, REPEATED, PIVOT, vectors
    for_chunks(lambda first, last: canonicalize(first, last, *arrays), len(chosen), 256)
    if count > 1 and more.any():
        equal = values[:, -1] - values[:, -2] <= np.maximum(rounding, REPEATED * values[:, -1])  # false for NaN
        more = np.where(equal, np.exp2(np.ceil(np.log2(np.maximum(more, 0.5)))), 0.0)  # 0.5, 1, 2, 4, ...: few batches
        for extra in np.unique(more[more >= 1]):
            nodes = (more == extra)[component]
            vectors[nodes] = _of_whole_eigenspaces(edges, component, nodes, count, int(extra), symmetric)
    return values, vectors, degree, rounding


def _of_whole_eigenspaces(
    edges: Edges, component: Integers, chosen: NDArray[np.bool_], count: int, extra: int, symmetric: bool
) -> Array:
    """The first ``count`` vectors of the components of the ``chosen`` nodes [N], from ``extra`` more."""
    name = chosen.cumsum() - 1
    inside = chosen[edges.source] & chosen[edges.target]
    weight = edges.weight[inside] if len(edges.weight) else edges.weight
    part = Edges(name[edges.source[inside]], name[edges.target[inside]], weight)
    number = np.unique(component[chosen], return_inverse=True)[1]
    every = np.arange(number.max() + 1)
    return solve_direct(part, number, members(number), every, count + extra, symmetric)[1][:, :count]


def _lowest(
    edges: Edges, component: Integers, group: Members, chosen: Integers, count: int, symmetric: bool
) -> tuple[Array, Array, Array, Array]:
    """:func:`solve_direct` with an arbitrary basis of each eigenspace, and how many more vectors the last one has."""
    values, more = np.full((len(group.size), count), np.nan), np.zeros(len(group.size))
    vectors, degree = np.zeros((len(component), count)), np.zeros(len(component))
    if len(chosen) == 0:
        return values, vectors, degree, more
    size, stride = group.size[chosen], np.zeros_like(group.size)
    stride[chosen] = np.where(size <= BATCHED_LIMIT, size, -(-size // LANES) * LANES)
    by_component = sort_edges(*edges, component, group.place, stride)
    order, begin = tasks(group, chosen)
    noise = _noise(int(size.max()) * count)
    arrays = order, begin, *group[:3], *by_component, noise, symmetric, BATCHED_LIMIT, values, vectors, degree, more
    for_chunks(lambda first, last: solve_tasks(first, last, *arrays), len(begin) - 1, 4)
    norm = 1.0 if symmetric else np.maximum.reduceat(degree[group.nodes], group.start)[chosen]
    check_lowest(values[chosen, 0], 2 * norm)
    return values, vectors, degree, more


@cache
def _noise(length: int) -> Array:
    """Random start vectors, the same on every run."""
    return np.random.default_rng(0).uniform(-0.5, 0.5, length)


def tasks(group: Members, chosen: Integers) -> tuple[Integers, Integers]:
    """Components sorted by size, and the first of each task: up to eight of one size, or one that is larger."""
    order = chosen[group.size[chosen].argsort(kind="stable")]
    size = group.size[order]
    rank = np.arange(len(order)) - size.searchsorted(size)
    first = np.flatnonzero((rank % LANES == 0) | (size > BATCHED_LIMIT))
    return order, np.append(first, len(order))
