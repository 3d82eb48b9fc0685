"""Repeated eigenvalues: relative gaps, and random bases of eigenspaces (sections 2.6 and B.4)."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

REPEATED = 1e-8  # relative gap below which two float64 eigenvalues are equal


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
        gap[np.diff(values, axis=1) <= rounding[:, None]] = 0.0
    index = np.arange(1, values.shape[1])
    gap[index == sizes[:, None] - 1] = 1.0
    return np.maximum(gap, 0.0)  # keeps NaN


def repeated(gap: Tensor, tolerance: float = REPEATED) -> Tensor:
    """Whether each vector shares its eigenvalue with the next or the previous one, ``[C, k] -> [C, k]``.

    >>> repeated(torch.tensor([[0.5, 0.0, 0.3]])).tolist()
    [[False, True, True]]
    """
    with_next = gap <= tolerance
    with_previous = torch.zeros_like(with_next)
    with_previous[:, 1:] = with_next[:, :-1]
    return with_next | with_previous


def eigenspaces(gap: Tensor, tolerance: float = REPEATED) -> Tensor:
    """The index of the eigenspace of each vector; vectors of equal index share an eigenvalue. ``[C, k]``

    >>> eigenspaces(torch.tensor([[0.5, 0.0, 0.3, 0.9]])).tolist()
    [[0, 1, 1, 2]]
    """
    new = torch.zeros_like(gap, dtype=torch.long)
    new[:, 1:] = ~(gap[:, :-1] <= tolerance)
    return new.cumsum(dim=1)


def random_rotations(gap: Tensor, generator: torch.Generator, tolerance: float = REPEATED) -> Tensor:
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
