"""Sizes of grids and blocks: Triton's own functions for them take ten times as long on the host."""


def ceil_div(total: int, size: int) -> int:
    """How many blocks of a size hold all.

    >>> ceil_div(9, 4)
    3
    """
    return -(-total // size)


def power_of_2(size: int) -> int:
    """The smallest power of 2 that is at least as large.

    >>> power_of_2(1), power_of_2(45), power_of_2(64)
    (1, 64, 64)
    """
    return 1 << max(size - 1, 0).bit_length()
