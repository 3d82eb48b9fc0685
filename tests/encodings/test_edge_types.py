"""Edge types are the frequent combinations; any other edge is assigned the nearest one."""

import pytest
import torch

from dgn.encodings import EdgeTypes
from dgn.encodings.edge_types import MOST_EDGE_TYPES
from dgn.nn.fused import select

SEEN = torch.tensor([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 2], [0, 1, 2], [0, 1, 0], [2, 0, 1]])


def test_types_are_sorted_by_frequency() -> None:
    edge_types = EdgeTypes.find(SEEN, (3,))
    assert edge_types.attributes.tolist() == [[1, 0, 0], [0, 1, 2], [0, 1, 0], [2, 0, 1]]
    assert edge_types.assign(SEEN).tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert len(EdgeTypes.find(SEEN, (3,), most=2)) == 2


@pytest.mark.parametrize(
    ("edge", "expected"),
    [
        ([2, 4, 4], 3),  # the category outweighs all counts
        ([0, 2, 3], 1),  # the counts that differ least
        ([0, 1, 1], 1),  # a tie: the more frequent one
        ([1, 99, 0], 0),  # a clipped count
    ],
)
def test_other_edges_are_assigned_the_nearest_type(edge: list[int], expected: int) -> None:
    assert EdgeTypes.find(SEEN, (3,)).assign(torch.tensor([edge])).tolist() == [expected]


def test_the_number_of_equal_categories_decides() -> None:
    edge_types = EdgeTypes.find(torch.tensor([[0, 0, 0, 5], [1, 1, 1, 0]]), (2, 2, 2))
    assert edge_types.assign(torch.tensor([[1, 0, 0, 0], [1, 1, 0, 5]])).tolist() == [0, 1]


def test_features_are_invertible() -> None:
    edge_types = EdgeTypes.find(SEEN, (3,))
    features = edge_types.features()
    assert features[1].tolist() == [1, 0, 0, 1, 2]
    assert torch.equal(EdgeTypes.of_features(features, (3,)).attributes, edge_types.attributes)


def test_without_edges_there_is_one_type() -> None:
    edge_types = EdgeTypes.find(torch.empty(0, 3, dtype=torch.long), (3,))
    assert edge_types.attributes.tolist() == [[0, 0, 0]]
    assert edge_types.assign(torch.empty(0, 3, dtype=torch.long)).shape == (0,)


def test_invalid_attributes_are_refused() -> None:
    edge_types = EdgeTypes.find(SEEN, (3,))
    with pytest.raises(ValueError, match="expected categories below 3"):
        edge_types.assign(torch.tensor([[3, 0, 0]]))
    with pytest.raises(ValueError, match="expected 1 categories and 2 counts of each edge"):
        edge_types.assign(torch.tensor([[1, 0]]))
    with pytest.raises(ValueError, match="fewer than 2\\^63 combinations"):
        EdgeTypes.find(torch.zeros(1, 25, dtype=torch.long), (3,))


def test_the_fused_gpu_layer_supports_all_types() -> None:
    assert MOST_EDGE_TYPES <= select.MOST_EDGE_TYPES
