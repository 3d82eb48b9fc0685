"""Rows filled up to a multiple of 16 numbers, and cut into pieces, as kernels on the CPU read them."""

from functools import cache

import numpy as np
from torch import Tensor

MULTIPLE = 16  # channels are filled up to a multiple of it
PIECE = 512  # rows over which a product of two tall matrices is summed in one go, whatever the number of threads


def up(width: int) -> int:
    """The width that rows are filled up to.

    >>> up(45), up(48)
    (48, 48)
    """
    return -(-width // MULTIPLE) * MULTIPLE


def fill_rows(values: Tensor) -> Tensor:
    """Rows filled up to a multiple of 16 numbers; a view of rows that are as far apart already is taken as it is.

    What stands in the places that are filled up is 0 where rows are copied, and may be anything where they are not.

    >>> import torch
    >>> fill_rows(torch.ones(2, 3)).shape, fill_rows(torch.ones(2, 48)[:, :45]).shape
    (torch.Size([2, 16]), torch.Size([2, 48]))
    """
    (rows, width), wide = values.shape, up(values.size(1))
    if values.stride() == (wide, 1):
        if width == wide:
            return values.detach()
        if rows * wide <= values.untyped_storage().nbytes() // values.itemsize - values.storage_offset():
            return values.detach().as_strided((rows, wide), (wide, 1))
    filled = values.new_empty(rows, wide)
    filled[:, width:] = 0
    filled[:, :width] = values.detach()
    return filled


def cut_rows(bounds: list[int]) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Groups of rows cut into pieces: the first and last row of each, and its group. [P, 3]

    >>> cut_rows([0, 600, 700]).tolist()
    [[0, 512, 0], [512, 600, 0], [600, 700, 1]]
    """
    found = [
        (first, min(first + PIECE, bounds[group + 1]), group)
        for group in range(len(bounds) - 1)
        for first in range(bounds[group], bounds[group + 1], PIECE)
    ]
    return np.array(found, np.int64).reshape(-1, 3)


@cache
def columns(*widths: int) -> "np.ndarray[tuple[int, int], np.dtype[np.int64]]":
    """Which columns are real, of several parts side by side that are each filled up. [P, 2]

    >>> columns(45, 45, 7).tolist()
    [[0, 45], [48, 93], [96, 103]]
    """
    starts = np.cumsum([0, *(up(width) for width in widths[:-1])])
    return np.stack([starts, starts + np.array(widths)], axis=1)
