"""Repeated eigenvalues: relative gaps, canonical and random bases of eigenspaces (sections 2.6 and B.4)."""

import math
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Values = TypeVar("Values", Tensor, NDArray[Any])

REPEATED = 1e-8  # relative gap below which two float64 eigenvalues are equal
PIVOT = math.exp(-0.5)  # of the largest; transcendental, so that rounding decides no pivot of an unweighted graph


def relative_gap(
    values: NDArray[np.float64], sizes: NDArray[np.int64], rounding: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    r"""The relative gap :math:`1 - \lambda_k / \lambda_{k+1}` to the next eigenvalue, in [0, 1].

    ``values [C, k + 1]`` ascend and end in NaN where the component has no more; the last vector of a component has
    gap 1, a vector that does not exist NaN. ``sizes [C]`` are the node counts. Eigenvalues that differ by no more
    than the ``rounding [C]`` of their component have gap 0.

    >>> relative_gap(np.array([[1.0, 3.0, np.nan]]), np.array([3])).round(3).tolist()
    [[0.667, 1.0]]
    """
    gap = 1 - values[:, :-1] / values[:, 1:]
    if rounding is not None:
        gap[values[:, 1:] - values[:, :-1] <= rounding[:, None]] = 0.0
    index = np.arange(2, values.shape[1] + 1)
    gap[index == sizes[:, None]] = 1.0
    return np.maximum(gap, 0.0)  # keeps NaN


def repeated(gap: Values, tolerance: float = REPEATED) -> Values:
    """Whether each vector shares its eigenvalue with the next or the previous one, ``[C, k] -> [C, k]``.

    >>> repeated(torch.tensor([[0.5, 0.0, 0.3]])).tolist()
    [[False, True, True]]
    """
    with_next = gap <= tolerance
    either = with_next | False
    either[:, 1:] |= with_next[:, :-1]
    return either


def eigenspaces(gap: Tensor, tolerance: float = REPEATED) -> Tensor:
    """The index of the eigenspace of each vector; vectors of equal index share an eigenvalue. ``[C, k]``

    >>> eigenspaces(torch.tensor([[0.5, 0.0, 0.3, 0.9]])).tolist()
    [[0, 1, 1, 2]]
    """
    new = torch.zeros_like(gap, dtype=torch.long)
    new[:, 1:] = ~(gap[:, :-1] <= tolerance)
    return new.cumsum(dim=1)


def canonical_basis(vectors: NDArray[np.float64], count: int) -> NDArray[np.float64]:
    r"""The first ``count`` vectors of an orthonormal basis of a space that depends on the space alone.

    ``vectors`` [n, m] are any orthonormal basis V of it. Vector j is :math:`u_j \propto P_j e_p`, where
    :math:`P_j = V V^\top - \sum_{l<j} u_l u_l^\top` projects on the space without the vectors before, and the pivot p
    is the first node with :math:`(P_j)_{pp} \ge e^{-1/2} \max_i (P_j)_{ii}`: a pivoted Cholesky factorisation of the
    projector. Positive at its pivot, each vector has a sign too. The basis depends on the numbering of the nodes.

    >>> plane = np.array([[0.0, 0.0], [0.6, 0.8], [-0.8, 0.6]])
    >>> canonical_basis(plane, 2).round(6).tolist() == [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]
    True
    """
    rest, basis = vectors.copy(), np.empty((len(vectors), count))
    for column in range(count):
        square = np.einsum("nm,nm->n", rest, rest)
        pivot = int((square >= PIVOT * square.max()).argmax())
        mixture = rest[pivot] / np.sqrt(square[pivot])
        basis[:, column] = rest @ mixture
        rest -= np.outer(basis[:, column], mixture)
    return basis


def bounds(values: NDArray[np.float64], rounding: float) -> list[int]:
    """The first index of each run of equal eigenvalues, and their number; ``values`` [m] ascend, m > 0.

    >>> bounds(np.array([1.0, 1.0, 3.0]), rounding=1e-15)
    [0, 2, 3]
    """
    apart = np.diff(values) > np.maximum(rounding, REPEATED * values[1:])
    return [0, *(np.flatnonzero(apart) + 1).tolist(), len(values)]


def canonicalize(values: NDArray[np.float64], vectors: NDArray[np.float64], rounding: float, count: int) -> None:
    """Give each repeated eigenspace its :func:`canonical_basis`, in the first ``count`` columns, in place.

    ``values`` [m] ascend, ``vectors`` [n, m]; all eigenspaces must be whole.
    """
    for begin, end in pairwise(bounds(values, rounding)):
        wanted = min(end, count) - begin
        if end - begin > 1 and wanted > 0:
            vectors[:, begin : begin + wanted] = canonical_basis(vectors[:, begin:end], wanted)


def random_rotations(gap: Tensor, generator: torch.Generator | None, tolerance: float = REPEATED) -> Tensor:
    """Random orthogonal matrices that mix only vectors of equal eigenvalue, ``[C, k] -> [C, k, k]`` float64.

    Each block is uniform over the orthogonal group; a vector of a simple eigenvalue keeps its column and sign.
    """
    count, k = gap.shape
    space = eigenspaces(gap, tolerance)
    same_space = space[:, :, None] == space[:, None, :]
    noise = torch.randn(count, k, k, generator=generator, dtype=torch.float64, device=gap.device)
    simple = same_space.sum(dim=2) == 1
    block = torch.where(same_space, noise, 0.0)
    block = torch.where((same_space & simple[:, :, None]), 1.0, block)
    rotation, upper = torch.linalg.qr(block)
    # A positive diagonal makes QR unique and the distribution uniform.
    flip = torch.diagonal(upper, dim1=1, dim2=2) < 0
    return torch.where(flip[:, None, :], -rotation, rotation)
