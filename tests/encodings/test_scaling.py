"""What a network is told of structural numbers: their scale."""

import torch

from dgn.encodings import Structure


def test_return_probabilities_are_centred_and_counts_stay() -> None:
    values = torch.rand(50, 4, generator=torch.Generator().manual_seed(0))
    values[:, 3] = torch.arange(50) % 3
    found = Structure.find(values, random_walk=3, rings=(6,))
    scaled = values * found.scale + found.offset
    torch.testing.assert_close(scaled[:, :3].mean(dim=0), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(scaled[:, :3].std(dim=0, correction=0), torch.ones(3))
    assert torch.equal(scaled[:, 3], values[:, 3])


def test_what_hardly_varies_is_not_blown_up() -> None:
    found = Structure.find(torch.tensor([[0.0, 0.0], [0.6, 0.001]]), random_walk=2)
    torch.testing.assert_close(found.scale, torch.tensor([1 / 0.3, 20.0]))


def test_where_all_vary_little_the_largest_deviation_counts() -> None:
    found = Structure.find(torch.tensor([[0.0, 0.0], [0.01, 0.001]]), random_walk=2)
    torch.testing.assert_close(found.scale, torch.full((2,), 200.0))
    rounding = Structure.find(torch.tensor([[0.5], [0.5 + 1e-7]]), random_walk=1)
    torch.testing.assert_close(rounding.scale, torch.tensor([1000.0]))


def test_no_nodes_have_a_scale_too() -> None:
    found = Structure.find(torch.empty(0, 2), random_walk=2)
    assert torch.equal(found.scale, torch.ones(2))
    assert torch.equal(found.offset, torch.zeros(2))


def test_graphs_that_nobody_has_seen() -> None:
    blank = Structure.blank(2, (5, 6), (4, 3))
    assert blank.scale.shape == (4,)
    assert blank.kinds is not None
    assert blank.kinds.features().shape == (1, 4 + 3 + 2)
    assert Structure.blank(2, (), (4,)).kinds is None
    assert Structure.blank(2, (5,), None).kinds is None
