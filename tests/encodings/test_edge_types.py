"""Types of edges: the frequent ones are told apart, others are taken for the nearest."""

import pytest
import torch

from dgn.encodings import EdgeTypes
from dgn.encodings.edge_types import MOST_EDGE_TYPES
from dgn.nn.fused import select

SEEN = torch.tensor([[1, 0, 0], [1, 0, 0], [1, 0, 0], [0, 1, 2], [0, 1, 2], [0, 1, 0], [2, 0, 1]])


def test_kinds_are_what_occurs_the_most_frequent_first() -> None:
    kinds = EdgeTypes.find(SEEN, (3,))
    assert kinds.attributes.tolist() == [[1, 0, 0], [0, 1, 2], [0, 1, 0], [2, 0, 1]]
    assert kinds.number(SEEN).tolist() == [0, 0, 0, 1, 1, 2, 3]
    assert len(EdgeTypes.find(SEEN, (3,), most=2)) == 2


@pytest.mark.parametrize(
    ("edge", "kind"),
    [
        ([2, 4, 4], 3),  # the category counts for more than all numbers
        ([0, 2, 3], 1),  # the counts that differ least
        ([0, 1, 1], 1),  # as near to two: the more frequent
        ([1, 99, 0], 0),  # beyond what is told apart
    ],
)
def test_others_are_taken_for_the_nearest(edge: list[int], kind: int) -> None:
    assert EdgeTypes.find(SEEN, (3,)).number(torch.tensor([edge])).tolist() == [kind]


def test_several_categories_may_agree_in_part() -> None:
    kinds = EdgeTypes.find(torch.tensor([[0, 0, 0, 5], [1, 1, 1, 0]]), (2, 2, 2))
    assert kinds.number(torch.tensor([[1, 0, 0, 0], [1, 1, 0, 5]])).tolist() == [0, 1]


def test_features_hold_all_of_it() -> None:
    kinds = EdgeTypes.find(SEEN, (3,))
    features = kinds.features()
    assert features[1].tolist() == [1, 0, 0, 1, 2]
    assert torch.equal(EdgeTypes.of_features(features, (3,)).attributes, kinds.attributes)


def test_without_edges_there_is_one_kind() -> None:
    kinds = EdgeTypes.find(torch.empty(0, 3, dtype=torch.long), (3,))
    assert kinds.attributes.tolist() == [[0, 0, 0]]
    assert kinds.number(torch.empty(0, 3, dtype=torch.long)).shape == (0,)


def test_what_cannot_be_is_refused() -> None:
    kinds = EdgeTypes.find(SEEN, (3,))
    with pytest.raises(ValueError, match="expected categories below 3"):
        kinds.number(torch.tensor([[3, 0, 0]]))
    with pytest.raises(ValueError, match="expected 1 categories and 2 counts of each edge"):
        kinds.number(torch.tensor([[1, 0]]))
    with pytest.raises(ValueError, match="fewer than 2\\^63 combinations"):
        EdgeTypes.find(torch.zeros(1, 25, dtype=torch.long), (3,))


def test_there_are_no_more_kinds_than_a_layer_on_a_gpu_takes() -> None:
    assert MOST_EDGE_TYPES <= select.MOST_EDGE_TYPES
