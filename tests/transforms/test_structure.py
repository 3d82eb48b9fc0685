"""Walks and rings as PyG transforms, alone and in batches."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import Compose

from dgn.testing import complete, cycle, grid, path
from dgn.transforms import AddRandomWalkPE, AddRings

GRAPHS = [grid(2, 3), path(1), cycle(5), complete(4)]


def make() -> list[Data]:
    transform = Compose([AddRandomWalkPE(steps=3), AddRings(sizes=[3, 4, 5])])
    return [transform(Data(edge_index=edge_index, num_nodes=num_nodes)) for edge_index, num_nodes in GRAPHS]


def test_transforms_are_batch_independent() -> None:
    alone = Batch.from_data_list(make())
    together = Batch.from_data_list([Data(edge_index=edge_index, num_nodes=n) for edge_index, n in GRAPHS])
    together = AddRings(sizes=[3, 4, 5])(AddRandomWalkPE(steps=3)(together))
    for name in ("random_walk", "rings", "edge_rings"):
        assert torch.equal(alone[name], together[name])


def test_encodings_of_a_ring_and_a_clique() -> None:
    _, _, ring, clique = make()
    assert ring.rings.tolist() == [[0, 0, 1]] * 5
    assert clique.edge_rings.tolist() == [[2, 0, 0]] * 12
    torch.testing.assert_close(clique.random_walk, torch.tensor([[0.0, 1 / 3, 2 / 9]]).expand(4, 3))


def test_arguments_are_checked_and_shown() -> None:
    assert repr(AddRings([3, 4])) == "AddRings(sizes=[3, 4])"
    assert repr(AddRandomWalkPE()) == "AddRandomWalkPE(steps=16)"
    with pytest.raises(ValueError, match="steps: expected 1 or more"):
        AddRandomWalkPE(0)
    with pytest.raises(ValueError, match="sizes: expected different numbers"):
        AddRings([2])
