"""Laws as assertions, small graphs and colour refinement, for tests of your own operators."""

from dgn.testing.collaboration_graph import collaboration
from dgn.testing.color_refinement import same_to_weisfeiler_leman, weisfeiler_leman
from dgn.testing.graphs import (
    complete,
    cycle,
    disjoint_union,
    edge_cases,
    grid,
    hypercube,
    path,
    random_graph,
    star,
)
from dgn.testing.laws import (
    assert_antisymmetric,
    assert_basis_independent,
    assert_batch_independent,
    assert_derivative,
    assert_linear,
    assert_permutation_equivariant,
    assert_reflection,
    assert_same_eigenspace,
    assert_smoothing,
)

__all__ = [
    "assert_antisymmetric",
    "assert_basis_independent",
    "assert_batch_independent",
    "assert_derivative",
    "assert_linear",
    "assert_permutation_equivariant",
    "assert_reflection",
    "assert_same_eigenspace",
    "assert_smoothing",
    "collaboration",
    "complete",
    "cycle",
    "disjoint_union",
    "edge_cases",
    "grid",
    "hypercube",
    "path",
    "random_graph",
    "same_to_weisfeiler_leman",
    "star",
    "weisfeiler_leman",
]
