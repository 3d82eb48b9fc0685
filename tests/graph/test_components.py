"""Components are numbered by their first node."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from dgn.graph.components import components


def flooded(adjacency: np.ndarray) -> list[int]:
    """Components by flooding from each node that is still dry."""
    label = [-1] * len(adjacency)
    for start in range(len(adjacency)):
        wet = [start] if label[start] < 0 else []
        next_label = max(label, default=-1) + 1
        while wet:
            node = wet.pop()
            label[node] = next_label
            wet += [other for other in np.flatnonzero(adjacency[node] + adjacency[:, node]) if label[other] < 0]
    return label


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.integers(0, 9).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, max(n * n - 1, 0))))))
def test_components_equal_flooding_whatever_the_direction_of_edges(sample: tuple[int, list[int]]) -> None:
    n, entries = sample
    adjacency = np.zeros((n, n))
    if n:
        adjacency.flat[entries] = 1.0
    assert components(csr_array(adjacency)).tolist() == flooded(adjacency)


def test_no_nodes_have_no_components() -> None:
    assert components(csr_array((0, 0))).shape == (0,)
