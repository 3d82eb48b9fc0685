"""The undirected simple graph: every edge once, sorted, and found again."""

import numpy as np

from dgn.encodings.simple import simple_graph


def test_every_edge_is_found_again() -> None:
    random = np.random.default_rng(0)
    edge_index = random.integers(0, 9, (2, 60))
    low, high, links = simple_graph(edge_index, 9)
    assert (low < high).all()
    assert (np.diff(low * 9 + high) > 0).all()
    loop = edge_index[0] == edge_index[1]
    assert (links[loop] == len(low)).all()
    np.testing.assert_array_equal(np.sort(edge_index[:, ~loop], axis=0), [low[links[~loop]], high[links[~loop]]])


def test_nothing_at_all() -> None:
    assert [len(part) for part in simple_graph(np.zeros((2, 0), dtype=np.int64), 0)] == [0, 0, 0]
