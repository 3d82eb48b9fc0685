"""Components and sorted edges of an edge list agree with those of the matrix."""

import numpy as np
import pytest
from scipy.sparse import coo_array

pytest.importorskip("numba", reason="Numba is not installed")

from dgn.graph.components import components, members
from dgn.kernels.numba.union_find import connected, sort_edges


@pytest.mark.parametrize("seed", range(5))
def test_components_and_matrices(seed: int) -> None:
    random = np.random.default_rng(seed)
    source, target = random.integers(0, 60, (2, 70))
    weight = random.integers(0, 3, 70).astype(float)
    entries = coo_array((weight, (target, source)), shape=(60, 60)).tocsr()
    entries.eliminate_zeros()
    label = connected(source, target, weight, 60)
    assert label.tolist() == components(entries).tolist()

    group = members(label)
    stride = np.where(np.arange(len(group.size)) % 3 == 1, 0, group.size + 1)  # every third one is not wanted
    keep = weight > 0
    begin, place, value = sort_edges(source[keep], target[keep], weight[keep], label, group.place, stride)
    for member, size in enumerate(group.size):
        edges_of_component = slice(begin[member], begin[member + 1])
        matrix = np.zeros((size, size + 1))
        np.add.at(matrix.reshape(-1), place[edges_of_component], value[edges_of_component])
        nodes = group.nodes[group.start[member] : group.start[member] + size]
        expected = entries[nodes][:, nodes].toarray() if stride[member] else np.zeros((size, size))
        assert matrix[:, :size].tolist() == expected.tolist()


def test_an_empty_weight_means_one() -> None:
    source, target, none = np.array([0, 3, 1]), np.array([1, 2, 0]), np.empty(0)
    label = connected(source, target, none, 5)
    assert label.tolist() == [0, 0, 1, 1, 2]
    begin, place, value = sort_edges(source, target, none, label, members(label).place, np.array([2, 2, 1]))
    assert (begin.tolist(), place.tolist(), len(value)) == ([0, 2, 3, 3], [2, 1, 1], 0)


def test_edges_of_weight_0_between_components_are_left_out() -> None:
    source, target = np.array([0, 1, 2, 3, 1]), np.array([1, 0, 3, 2, 2])
    weight, place = np.array([1.0, 1.0, 2.0, 2.0, 0.0]), np.array([0, 1, 0, 1])
    label, stride = np.array([0, 0, 1, 1]), np.array([2, 2])
    begin, entry, value = sort_edges(source, target, weight, label, place, stride)
    assert begin.tolist() == [0, 2, 4]
    assert entry.tolist() == [2, 1, 2, 1]
    assert value.tolist() == [1, 1, 2, 2]
