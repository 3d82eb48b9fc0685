"""Walks, rings and cliques as PyG transforms, alone and in batches."""

import pytest
import torch
from torch_geometric.data import Batch, Data
from torch_geometric.transforms import Compose

from dgn.testing import complete, cycle, grid, path
from dgn.transforms import AddAffinities, AddCliques, AddReturnProbabilities, AddRings

GRAPHS = [grid(2, 3), path(1), cycle(5), complete(4)]


def make() -> list[Data]:
    walks = [AddReturnProbabilities(steps=3), AddAffinities(steps=2)]
    transform = Compose([*walks, AddRings(sizes=[3, 4, 5]), AddCliques(sizes=[3, 4])])
    return [transform(Data(edge_index=edge_index, num_nodes=num_nodes)) for edge_index, num_nodes in GRAPHS]


def test_graphs_of_a_batch_are_as_alone() -> None:
    alone = Batch.from_data_list(make())
    together = Batch.from_data_list([Data(edge_index=edge_index, num_nodes=n) for edge_index, n in GRAPHS])
    together = AddCliques(sizes=[3, 4])(AddRings(sizes=[3, 4, 5])(AddReturnProbabilities(steps=3)(together)))
    together = AddAffinities(steps=2)(together)
    for name in ("random_walk", "edge_walk", "rings", "edge_rings", "cliques", "edge_cliques"):
        assert torch.equal(alone[name], together[name])


def test_values() -> None:
    _, _, ring, clique = make()
    assert ring.rings.tolist() == [[0, 0, 1]] * 5
    assert clique.cliques.tolist() == [[3, 1]] * 4
    assert clique.edge_cliques.tolist() == [[2, 1]] * 12
    assert clique.edge_rings.tolist() == [[2, 0, 0]] * 12
    torch.testing.assert_close(clique.edge_walk, torch.tensor([[4 / 3, 8 / 9]]).expand(12, 2))
    torch.testing.assert_close(clique.random_walk, torch.tensor([[0.0, 1 / 3, 2 / 9]]).expand(4, 3))


def test_arguments_are_checked_and_shown() -> None:
    assert repr(AddRings([3, 4])) == "AddRings(sizes=[3, 4])"
    assert repr(AddCliques()) == "AddCliques(sizes=[3, 4, 5])"
    assert repr(AddReturnProbabilities()) == "AddReturnProbabilities(steps=16)"
    assert repr(AddAffinities()) == "AddAffinities(steps=4)"
    for transform in (AddReturnProbabilities, AddAffinities):
        with pytest.raises(ValueError, match="steps: expected 1 or more"):
            transform(0)
    with pytest.raises(ValueError, match="sizes: expected different numbers"):
        AddRings([2])
    with pytest.raises(ValueError, match="sizes: expected different numbers"):
        AddCliques([2])
