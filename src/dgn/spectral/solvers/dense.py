"""Eigenvectors of many small components: batched dense solves, exact to rounding."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from dgn.graph.components import members
from dgn.spectral.degeneracy import REPEATED, canonicalize
from dgn.spectral.spectrum import ROUNDING

BATCH_ENTRIES = 1 << 24  # 128 MiB of float64 per batched solve


class Solution(NamedTuple):
    """Lowest non-trivial eigenpairs of components of one size.

    ``component`` [b], ``nodes`` [b, n], ``values`` [b, m] ascending, ``vectors`` [b, n, m], orthonormal.
    """

    component: NDArray[np.int64]
    nodes: NDArray[np.int64]
    values: NDArray[np.float64]
    vectors: NDArray[np.float64]


def solve_dense(
    laplacian: csr_array, trivial: NDArray[np.float64], component: NDArray[np.int64], largest: int, count: int
) -> Iterator[Solution]:
    """Solve all components of 2 to ``largest`` nodes of a symmetric Laplacian.

    Components of one size are solved together by ``torch.linalg.eigh`` in float64. Yields at most ``count``
    non-trivial pairs for each, fewer where the component has fewer. ``trivial`` [N] is a vector of eigenvalue 0.
    """
    size, start, nodes, place = members(component)
    entries = coo_array(laplacian)
    row, column = entries.coords
    by_size = size[component[row]].argsort(kind="stable")
    sorted_size = size[component[row]][by_size]
    slot = np.empty(len(size), dtype=np.int64)
    for n in np.unique(size[(size > 1) & (size <= largest)]):
        entry = by_size[slice(*sorted_size.searchsorted([n, n + 1]))]
        entry = entry[component[row[entry]].argsort(kind="stable")]
        owner = component[row[entry]]
        of_size = np.flatnonzero(size == n)
        step = max(1, BATCH_ENTRIES // int(n * n))
        for chunk in np.split(of_size, range(step, len(of_size), step)):
            span = slice(owner.searchsorted(chunk[0]), owner.searchsorted(chunk[-1], side="right"))
            slot[chunk] = np.arange(len(chunk))
            i, j = row[entry[span]], column[entry[span]]
            matrices = np.zeros((len(chunk), n, n))
            matrices[slot[owner[span]], place[i], place[j]] = entries.data[entry[span]]
            chunk_nodes = nodes[start[chunk][:, None] + np.arange(n)]
            values, vectors = _lowest(matrices, trivial[chunk_nodes], count)
            yield Solution(chunk, chunk_nodes, values, vectors)


def _lowest(
    matrices: NDArray[np.float64], trivial: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The eigenpairs after the trivial one of each matrix, at most ``count``, in canonical bases of eigenspaces."""
    values, vectors = (result.numpy() for result in torch.linalg.eigh(torch.from_numpy(matrices)))
    check_one_zero(values)
    values, vectors = values[:, 1:], vectors[:, :, 1:]
    rounding = 2 * ROUNDING * np.diagonal(matrices, axis1=1, axis2=2).max(axis=1)
    equal = np.diff(values[:, : count + 1]) <= np.maximum(rounding[:, None], REPEATED * values[:, 1 : count + 1])
    for one in np.flatnonzero(equal.any(axis=1)):
        canonicalize(values[one], vectors[one], rounding[one], count)
    return values[:, :count], orthonormal_to(trivial, vectors[:, :, :count])


def orthonormal_to(trivial: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
    """Nearly orthonormal vectors made orthonormal, and orthogonal to the trivial one, in their order. [b, n, m]

    At an eigenvalue not far above rounding an eigenvector computed densely contains some of the trivial one. Twice,
    against rounding.
    """
    basis = [trivial / np.linalg.norm(trivial, axis=1, keepdims=True)]
    for column in np.moveaxis(vectors, 2, 0):
        rest = column
        for unit in basis * 2:
            rest = rest - unit * np.einsum("bn,bn->b", unit, rest)[:, None]
        basis.append(rest / np.linalg.norm(rest, axis=1, keepdims=True))
    return np.stack(basis[1:], axis=2)


def check_one_zero(values: NDArray[np.float64]) -> None:
    """Check that each component has the eigenvalue 0 once. ``values`` [b, n] ascend."""
    assert (np.abs(values[:, 0]) <= 1e-13 * values.shape[1] * values[:, -1]).all(), "the constant vector was lost"
    check_lowest(values[:, 1], values[:, -1])


def check_lowest(values: NDArray[np.float64], norm: NDArray[np.float64] | float) -> None:
    """Refuse a first non-trivial eigenvalue of 0, that of a component which is disconnected to rounding."""
    if (values <= 1e-15 * norm).any():
        raise ValueError(
            "edge_weight: expected weights that connect each component, got a component whose first non-trivial "
            f"eigenvalue is 0 to rounding ({values.min():.1e}); drop the edges of negligible weight, which "
            "makes it two components"
        )
