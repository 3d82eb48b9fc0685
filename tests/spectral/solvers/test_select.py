"""The choice of an eigensolver, as a table."""

import pytest

from dgn.spectral.solvers.select import LARGEST_DENSE, LARGEST_EXACT, choose_solver, largest_dense, may_rescue

SMALL, MIDDLE, LARGE = LARGEST_DENSE, LARGEST_EXACT, LARGEST_EXACT + 1
TABLE = [  # nodes, many nodes in the call, Numba: solver
    (SMALL, True, True, "direct"),
    (SMALL, False, True, "dense"),
    (SMALL, True, False, "dense"),
    (SMALL + 1, True, True, "shift_invert"),
    (MIDDLE, False, True, "shift_invert"),
    (LARGE, False, True, "lobpcg"),
    (LARGE, True, True, "lobpcg"),
    (LARGE, True, False, "shift_invert"),
]


@pytest.mark.parametrize(("nodes", "many", "numba", "solver"), TABLE)
def test_the_table_of_solvers(nodes: int, many: bool, numba: bool, solver: str) -> None:
    assert choose_solver(nodes, 2, many, numba) == solver


def test_many_vectors_are_solved_densely_on_larger_components() -> None:
    assert largest_dense(100) > LARGEST_DENSE
    assert choose_solver(largest_dense(100), 100, many=False, numba=True) == "dense"


def test_an_exact_factorisation_rescues_components_that_fit_memory() -> None:
    assert may_rescue(50_000)
    assert not may_rescue(50_001)
