"""The eigensolver of a connected component: one table.

| nodes of the component | many nodes in the call, with Numba | otherwise, with Numba | without Numba |
|---|---|---|---|
| up to ``LARGEST_DENSE`` | direct | dense | dense |
| up to ``LARGEST_EXACT`` | shift_invert | shift_invert | shift_invert |
| more | lobpcg | lobpcg | shift_invert |
"""

from importlib.util import find_spec
from typing import Literal

from dgn.spectral.solvers.shift_invert import GUARD

Solver = Literal["direct", "dense", "shift_invert", "lobpcg"]

LARGEST_DENSE = 300  # nodes; above, one sparse factorisation is faster than a dense decomposition
LARGEST_EXACT = 4000  # nodes up to which an exact factorisation takes less time than loading Numba's kernels
LARGEST_RESCUE = 50_000  # nodes up to which an exact factorisation takes over where the iteration does not converge
MANY_NODES = 10_000  # in one call; with fewer, torch takes less time than loading Numba's kernels


def has_numba() -> bool:
    """Whether Numba is installed."""
    return find_spec("numba") is not None


def largest_dense(count: int) -> int:
    """The largest number of nodes of a direct or dense solve for ``count`` vectors."""
    return max(LARGEST_DENSE, 10 * (count + GUARD))


def choose_solver(nodes: int, count: int, many: bool, numba: bool) -> Solver:
    """The solver of a component of ``nodes`` nodes for its first ``count`` vectors.

    ``many``: the call holds ``MANY_NODES`` nodes or a whole dataset.

    >>> [choose_solver(nodes, 2, many=True, numba=True) for nodes in (20, 1000, 100_000)]
    ['direct', 'shift_invert', 'lobpcg']
    >>> [choose_solver(nodes, 2, many=False, numba=False) for nodes in (20, 1000, 100_000)]
    ['dense', 'shift_invert', 'shift_invert']
    """
    if nodes <= largest_dense(count):
        return "direct" if many and numba else "dense"
    return "lobpcg" if numba and nodes > LARGEST_EXACT else "shift_invert"


def may_rescue(nodes: int) -> bool:
    """Whether an exact factorisation takes over where the iteration does not converge."""
    return nodes <= LARGEST_RESCUE
