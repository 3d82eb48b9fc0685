"""Node and edge features as matrices."""

from torch import Tensor


def as_columns(values: Tensor) -> Tensor:
    """Features as a matrix: ``[R] or [R, ...] -> [R, C]``, also for R = 0.

    >>> import torch
    >>> as_columns(torch.zeros(3)).shape, as_columns(torch.zeros(0, 2, 2)).shape
    (torch.Size([3, 1]), torch.Size([0, 4]))
    """
    return values[:, None] if values.dim() == 1 else values.flatten(1)
