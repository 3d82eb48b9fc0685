"""Values of nodes and edges as matrices."""

from torch import Tensor


def as_columns(values: Tensor) -> Tensor:
    """One number or several for each row, as a matrix: ``[R] or [R, ...] -> [R, C]``, also where there is no row.

    >>> import torch
    >>> as_columns(torch.zeros(3)).shape, as_columns(torch.zeros(0, 2, 2)).shape
    (torch.Size([3, 1]), torch.Size([0, 4]))
    """
    return values[:, None] if values.dim() == 1 else values.flatten(1)
